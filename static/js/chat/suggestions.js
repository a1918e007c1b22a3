/**
 * Questions that a document may answer, made of its own sentences. They are in English, whatever the
 * page speaks: sentences of other languages are not taken apart, and only there is a summary known.
 */

import { getText } from "../core/api.js";
import { t } from "../core/strings.js";
import { cellsOf } from "../documents/grid.js";

const MOST = 3;
/** Characters of the document that are looked at. */
const BEGINNING = 6000;
/** A noun with what belongs to it: no verb in it, and no second clause. */
const THING = "(?:The|the) ([a-z](?:(?! (?:is|are|was|were|has|have|and|or|but|that|which|who) )[^.,;:!?]){2,50}?)";
const PLACE = "(?:in|under|behind|on|at|beside|by|above|below|inside|next to|left of|right of)";
const TIME = "(?:(?:in|on|at|until|before|after) (?:the (?:first|last|middle|end|week|month|morning|evening)|spring|summer|autumn|winter|noon|[0-9]|[A-Z][a-z]+))";

/** What a sentence says of a thing, and the question that it answers. @type {[RegExp, (thing: string, verb: string, done: string) => string][]} */
const FORMS = [
  [new RegExp(`^${THING} (hang|lie|stand|live|sit)s ${PLACE} `), (thing, verb) => `Where does the ${thing} ${verb}?`],
  [new RegExp(`^${THING} (is|are) ([a-z]+(?:ed|en|pt|ld|nt|ut)) ${TIME}`), (thing, verb, done) => `When ${verb} the ${thing} ${done}?`],
  [new RegExp(`^${THING} (is|are) ([a-z]+(?:ed|en|pt|ld)) ${PLACE} `), (thing, verb, done) => `Where ${verb} the ${thing} ${done}?`],
  [new RegExp(`^${THING} (is|are) ${PLACE} `), (thing, verb) => `Where ${verb} the ${thing}?`],
  [new RegExp(`^${THING} (is|are) called `), (thing, verb) => `What ${verb} the ${thing} called?`],
  [new RegExp(`^${THING} (is|are) (?![a-z]+(?:ed|en|pt|ld|nt|ing|not|up|off)\\b)`), (thing, verb) => `What ${verb} the ${thing}?`],
];

/** The name of a column that can be asked for as it is: one word that is no participle. */
const THINGS = /^(?!\w*ed$)\w+$/;
/** A line that says in a word or two what it is of. */
const LABELLED = /^([A-Z][a-z]+(?: [a-z]+)?): \S/;

/** By document. @type {Map<string, Promise<string[]>>} */
const made = new Map();

/** Up to three questions to a document. @param {string} id @param {string} name */
export function suggestions(id, name) {
  const known = made.get(id) ?? getText(id, 0, BEGINNING).then(({ text }) => questionsOf(text, name), () => []);
  made.set(id, known);
  return known;
}

/** @param {string} text @param {string} name */
function questionsOf(text, name) {
  const lines = text.split(/\n+/).map((line) => line.trim());
  const rows = lines.map(cellsOf).filter((cells) => cells.length);
  if (rows.length > 1) return ofTable(rows);
  const asked = lines.flatMap((line) => line.split(/(?<=[.!?])\s+/)).flatMap((sentence) => {
    for (const [form, question] of FORMS) {
      const found = form.exec(sentence);
      if (found) return [question(found[1] ?? "", found[2] ?? "", found[3] ?? "")];
    }
    return [];
  });
  // A text's first line is its title, however it is written.
  const labels = lines.slice(1).flatMap((line) => LABELLED.exec(line)?.[1] ?? []).map((label) => `What is the ${label.toLowerCase()}?`);
  return [...new Set([...asked, ...labels]), t("suggest.summary", { name })].slice(0, MOST);
}

/** Of each row another column, by the name in its first; once around, each row's next. @param {[string, string][][]} rows */
function ofTable(rows) {
  const asked = Array.from({ length: MOST }, (_, index) => {
    const [first, ...others] = rows[index % rows.length] ?? [];
    const things = others.flatMap(([name]) => (THINGS.test(name) ? [name] : []));
    const thing = things[(index + Math.floor(index / rows.length)) % things.length];
    return first && thing ? [`What is the ${thing} of ${first[1]}?`] : [];
  });
  return [...new Set(asked.flat())];
}
