/**
 * What can be asked of a document, going by its own words: headings, labelled facts, cells of tables, and on English
 * pages what English sentences say of when, where and how much. What does not surely read well is left out.
 */

import { cellsOf } from "../documents/passage.js";

/** @typedef {{key: string, values: Record<string, string>}} Filled A text of the page with its blanks filled. */
/** @typedef {Filled | string} Question The latter in English. */

/** Words of a heading or a label, and its characters. */
const WORDS = 5, LONGEST = 40;
/** Lines between two labels that belong together. */
const NEAR = 3;
/** A heading of Markdown, of a wiki, or a numbered one. */
const MARKED = /^(?:#{2,6}|={2,}|= =)[= ]*(.+?)[#= ]*$/;
const NUMBERED = /^(?:§\s*)?\d{1,2}(?:\.\d+)*[.)]?\s+/, CAPITALS = /^[\p{Lu} ’'-]{4,}$/u;
/** A line of prose, which a title page has none of. */
const PROSE = /^(?=.{40})\S+ .*?\p{Ll}{3} .*\p{Ll}{3}/u;
/** A paragraph that begins with its heading, where most do. */
const BEGUN = /^([\p{Lu}][\p{L}’' -]{2,30})\. \p{Lu}/u;
const LABELLED = /^[-*•]?\s*\**([\p{Lu}][\p{L}’' -]{2,30}?)\**:\**\s+(\S.{0,79})$/u;
/** Of letters, and words before what is not a fact. */
const NO_LABEL = /^(?:from|to|cc|bcc|re|fwd|subject|date|sent|dear|note|nb|ps|tip|warning|hint|example|chapter|part|page|figure|table|von|an|betreff|datum|hinweis|achtung|de|para|asunto|fecha|nota|aviso)\b/i;

const WORD = "(?!(?:is|are|was|were|has|have|had|and|or|but|that|which|who|of|in|on|at|to|for|from|by|with|only|same|actual|other|first|last|next|most|best|one|two|rest|fact|way|more)\\b)[a-z][a-z-]{2,}";
const OF = `(?: of the ${WORD}(?: ${WORD})?)?`;
/** A noun with an adjective or two, and what it is of: nothing that could be a verb, a clause or a quantity. */
const THING = `The (${WORD}(?: ${WORD}){0,2}${OF})`;
const VALUED = "code|number|price|fee|rent|deposit|cost|budget|deadline|date|password|address|name|limit|rate|temperature|pressure|total|salary|height|length|width|weight|size|population|area";
const PLACE = "(?:in|under|behind|on|at|beside|above|below|inside|next to|left of|right of) (?:the|a|an|[A-Z])";
const TIME = "(?:(?:in|on|at|until|before|after|every) (?:the (?:first|last|middle|end|week|month|morning|evening)|spring|summer|autumn|winter|noon|midnight|\\d|January|February|March|April|May|June|July|August|September|October|November|December|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)|(?:daily|weekly|monthly|yearly|twice|once|every)\\b)";
/** What is done at a time that people ask for. */
const DONE = "(born|bought|built|checked|cleaned|closed|collected|commissioned|completed|created|cut|delivered|designed|due|elected|emptied|established|fed|filled|finished|fitted|formed|founded|given|held|installed|inspected|introduced|invented|made|moved|opened|ordered|painted|paid|planted|played|posted|pruned|published|recorded|released|renewed|repaired|replaced|returned|sent|serviced|shown|signed|sold|started|swept|tested|tuned|washed|watered|written)";
/** What a sentence says of a thing, and the question that it answers. @type {[RegExp, (thing: string, verb: string, more: string) => string][]} */
const FORMS = [
  [new RegExp(`^${THING} (is|are|was|were) ${DONE} ${TIME}`), (thing, verb, done) => `When ${verb} the ${thing} ${done}?`],
  [new RegExp(`^${THING} (open|close|start|begin|end|leave|arrive)s ${TIME}`), (thing, verb) => `When does the ${thing} ${verb}?`],
  [new RegExp(`^${THING} (hang|lie|stand|live)s ${PLACE}`), (thing, verb) => `Where does the ${thing} ${verb}?`],
  [new RegExp(`^${THING} (is|are|was|were) (kept|stored|located|hidden|buried|parked) ${PLACE}`), (thing, verb, done) => `Where ${verb} the ${thing} ${done}?`],
  [new RegExp(`^${THING} (is|are) ${PLACE}`), (thing, verb) => `Where ${verb} the ${thing}?`],
  [new RegExp(`^${THING} (is|are|was|were) called `), (thing, verb) => `What ${verb} the ${thing} called?`],
  [new RegExp(`^${THING} (is|are|was|were) (?:about |almost |nearly )?[\\d.,]+ [a-z]+ (old|long|high|wide|tall|deep|thick)\\b`), (thing, verb, size) => `How ${size} ${verb} the ${thing}?`],
  [new RegExp(`^${THING} costs? (?:about )?(?:[$€£]\\s?)?\\d`), (thing) => `How much does the ${thing} cost?`],
  [new RegExp(`^The ((?:${WORD} ){0,2}(?:${VALUED})${OF}) (is|was) (?:[^a-z]|\\S*\\d)`), (thing, verb) => `What ${verb} the ${thing}?`],
];

/** The name of a column that can be asked for as it is: one word that is no participle. */
const COLUMN = /^\p{L}{3,}$/u;
const NAME = /^\p{L}{3}/u;

/**
 * What is asked, the best first; nothing twice.
 *
 * @param {string} text The beginning of a document.
 * @param {boolean} english Whether questions may be made of English sentences.
 * @returns {Question[]}
 */
export function questionsOf(text, english) {
  const lines = text.split("\n").map((line) => line.trim());
  const rows = lines.map(cellsOf).filter((cells) => cells.length);
  if (rows.length > 1 && 2 * rows.length > lines.filter(Boolean).length) return cells(rows);
  const asked = english ? sentences(lines) : [];
  const said = spaced(asked.join(" "));
  const named = [...labels(lines), ...headings(lines)].filter(({ values: { heading } }) => !said.includes(spaced(heading)));
  // One of each in turn: three alike are dull.
  const mixed = Array.from({ length: Math.max(asked.length, named.length) }, (_, at) => [asked[at], named[at]]).flat();
  return mixed.filter((each) => each !== undefined);
}

/** Only its words, a space around each. @param {string} text */
const spaced = (text) => ` ${(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).join(" ")} `;

/** @param {string[]} lines */
function sentences(lines) {
  const found = lines.flatMap((line) => line.split(/(?<=[.!?])\s+/)).flatMap((sentence) => {
    for (const [form, question] of FORMS) {
      const match = form.exec(sentence);
      if (match) return [question((match[1] ?? "").trim(), match[2] ?? "", match[3] ?? "")];
    }
    return [];
  });
  return [...new Set(found)];
}

/** @param {string[]} lines @returns {Filled[]} */
function headings(lines) {
  const begun = lines.filter((line, at) => !lines[at - 1] && BEGUN.test(line)).length;
  const usual = begun > 2 && 2 * begun > lines.filter((line, at) => line && !lines[at - 1]).length;
  const found = lines.flatMap((line, at) => {
    // Its text follows at once.
    const apart = at > 0 && !lines[at - 1] && PROSE.test(lines[at + 1] ?? "") && (NUMBERED.test(line) || CAPITALS.test(line));
    const heading = MARKED.exec(line)?.[1] || (usual && BEGUN.exec(line)?.[1]) || (apart ? line : "");
    const plain = heading.replace(NUMBERED, "").trim();
    return sayable(plain) ? [plain] : [];
  });
  return [...new Set(found)].map((heading) => ({ key: "suggest.heading", values: { heading } }));
}

/**
 * Those that stand once, close to others: what comes again speaks in a dialogue, and what stands alone is of a sentence.
 *
 * @param {string[]} lines
 * @returns {Filled[]}
 */
function labels(lines) {
  const at = lines.map((line) => LABELLED.exec(line)?.[1] ?? "");
  const found = at.filter((label, place) => label && at.some((other, near) => other && near !== place && Math.abs(near - place) <= NEAR) && sayable(label) && /\p{Ll}/u.test(label) && !NO_LABEL.test(label));
  return found.filter((label) => found.indexOf(label) === found.lastIndexOf(label)).map((heading) => ({ key: "suggest.heading", values: { heading } }));
}

/** Whether words can be quoted in a question. @param {string} words */
function sayable(words) {
  return words.length > 2 && words.length <= LONGEST && words.split(/\s+/).length <= WORDS && /\p{L}{3}/u.test(words) && /^[\p{L}\d]/u.test(words) && !/[.:;!?|<>{}[\]“”"]/.test(words);
}

/** Of each row another column, by the first cell that names it. @param {[string, string][][]} rows @returns {Question[]} */
function cells(rows) {
  const named = (rows[0] ?? []).findIndex((_, at) => {
    const values = rows.map((row) => row[at]?.[1] ?? "");
    return values.every((value) => NAME.test(value) && value.length <= LONGEST) && new Set(values).size === values.length;
  });
  if (named < 0) return [];
  return rows.flatMap((row, at) => {
    const things = row.filter(([column], place) => place > named && COLUMN.test(column));
    const [column] = things[at % Math.max(1, things.length)] ?? [];
    return column ? [{ key: "suggest.cell", values: { column: column.toLowerCase(), row: row[named]?.[1] ?? "" } }] : [];
  });
}
