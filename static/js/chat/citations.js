/** Which passages the sentences of an answer rest on, by the words they share, and the numbered marks that say so. */

import { place, pressable } from "../core/controls.js";
import { byId, el, textsOf } from "../core/dom.js";
import { locale, plain, t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Source} Source */

/** What holds one sentence or more. */
const UNITS = "p, li, tr, h1, h2, h3, h4, h5, h6";
const SKIPPED = ".seam, .code, pre, .phrase, .thought, .cite";
/** The share of a sentence's words that a passage must have, for the sentence to rest on it. */
const ENOUGH = 0.5;
/** Of the words that no other passage of the sentence has. */
const MORE = 0.25;
/** Letters of a word that tell it from others; the rest is grammar. */
const STEM = 5;
/** Behind these no sentence ends, whatever the browser's rules say: initials, titles and other abbreviations, a day before its month. */
const NO_END = /(?<![\p{L}\p{M}\p{N}'’])(?:\p{L}\p{M}*|Mr|Mrs|Ms|Dr|Prof|Rev|St|No|vs|etc|approx|Hr|Fr|Nr|Abs|Art|Tel|bzw|ca|inkl|\p{L}*[Ss]tr|Sra?|Dra|Dña|Uds?|Avda|núm|pág)\.\s+|\d\.\s+(?=(?:Jan(?:uar)?|Feb(?:ruar)?|März?|Apr(?:il)?|Mai|Juni?|Juli?|Aug(?:ust)?|Sept?(?:ember)?|Okt(?:ober)?|Nov(?:ember)?|Dez(?:ember)?)(?!\p{L}))/gu;
const CITED = /[^\S\n]*\[\s*(\d{1,3}(?:\s*,\s*\d{1,3})*)\s*\]/g;
const HIDE_MS = 200;

const sentences = new Intl.Segmenter(locale, { granularity: "sentence" });
const separate = new Intl.Segmenter(locale, { granularity: "word" });

/** @param {string} word */
const stem = (word) => (/\d/.test(word) ? word : plain(word).slice(0, STEM));

/**
 * The words of a text that say something: short ones seldom do, unless they are names or numbers.
 *
 * @param {string} text
 */
function tellingWords(text) {
  return [...separate.segment(text)].flatMap(({ segment, index, isWordLike }) => {
    const telling = isWordLike && (segment.length > 3 || /\d/.test(segment) || (index > 0 && /^\p{Lu}/u.test(segment)) || (segment.length > 1 && !/[\p{Script=Latin}]/u.test(segment)));
    return telling ? [{ start: index, end: index + segment.length, stem: stem(segment) }] : [];
  });
}

/** @param {string} text @returns {Set<string>} */
const stemsOf = (text) => new Set(tellingWords(text).map((word) => word.stem));

/**
 * Where the sentences of a text begin and end.
 *
 * @param {string} text
 */
function sentencesOf(text) {
  const within = new Set([...text.matchAll(NO_END)].map(({ 0: match, index }) => index + match.length));
  const ends = [...sentences.segment(text)].map(({ segment, index }) => index + segment.length).filter((end) => end === text.length || !within.has(end));
  return ends.map((end, at) => ({ start: ends[at - 1] ?? 0, end }));
}

/**
 * The passages a sentence rests on: those it cites and shares a word with, then those that have most of its other words.
 *
 * @param {string} sentence
 * @param {number[]} cited
 * @param {Set<string>[]} passages The words of each.
 * @returns {number[]}
 */
export function restsOn(sentence, cited, passages) {
  const all = stemsOf(sentence);
  let left = all;
  /** @type {number[]} */
  const found = [];
  const take = (/** @type {number} */ index) => {
    found.push(index);
    left = new Set([...left].filter((word) => !passages[index]?.has(word)));
  };
  const shared = (/** @type {number} */ index) => [...left].filter((word) => passages[index]?.has(word)).length;
  for (const index of new Set(cited)) if ([...all].some((word) => passages[index]?.has(word))) take(index);
  for (;;) {
    const [best = 0] = passages.map((_, index) => index).sort((one, other) => shared(other) - shared(one));
    if (!all.size || !shared(best) || shared(best) < all.size * (found.length ? MORE : ENOUGH)) return found;
    take(best);
  }
}

/** What tells a passage from others. @param {Source} source */
export const keyOf = ({ side, id, start, text }) => `${side} ${id} ${start} ${text}`;

/**
 * Puts marks behind what an answer has of its passages, in place of the numbers its model wrote.
 *
 * @param {HTMLElement} body Holds the answer's blocks.
 * @param {Source[]} sources
 * @param {(source: Source) => void} open
 * @returns {Source[]} Those that the answer rests on, in the order of their marks.
 */
export function cite(body, sources, open) {
  uncite(body);
  const known = new Map(sources.map((source) => [keyOf(source), source]));
  const distinct = [...known.values()].filter(({ text }) => text);
  const passages = distinct.map(({ text, around = "" }) => stemsOf(`${text}\n${around}`));
  const written = new Map(sources.map((source) => [source.citation, distinct.findIndex((each) => keyOf(each) === keyOf(source))]));
  /** @type {Source[]} */
  const used = [];
  for (const { text, nodes } of unitsOf(body)) {
    const numbers = [...text.matchAll(CITED)].map((match) => ({ start: match.index, end: match.index + match[0].length, indices: [...(match[1] ?? "").matchAll(/\d+/g)].map(([number]) => written.get(Number(number)) ?? -1) }))
      .filter(({ indices }) => indices.every((index) => index >= 0));
    // What is cited belongs to the sentence before it.
    let bare = text;
    for (const { start, end } of numbers) bare = bare.slice(0, start) + " ".repeat(end - start) + bare.slice(end);
    /** @type {{at: number, mark: HTMLElement | null, cut: number}[]} */
    const changes = numbers.map(({ start, end }) => ({ at: start, mark: null, cut: end - start }));
    for (const { start, end, found } of runsOf(bare, numbers, passages)) {
      const said = bare.slice(start, end);
      changes.push(...found.map((which) => {
        const source = /** @type {Source} */ (distinct[which]);
        if (!used.includes(source)) used.push(source);
        return { at: start + said.trimEnd().length, mark: markOf(source, used.indexOf(source) + 1, said, open), cut: 0 };
      }));
    }
    // From the end on, so that what is before keeps its place.
    for (const { at, mark, cut } of changes.toReversed().sort((one, other) => other.at - one.at || other.cut - one.cut)) change(nodes, at, mark, cut);
  }
  return used;
}

/**
 * The parts of a text that rest on the same passages: one mark at the end of each says so.
 *
 * @param {string} text
 * @param {{start: number, indices: number[]}[]} numbers Where it cites which passages.
 * @param {Set<string>[]} passages The words of each.
 */
function runsOf(text, numbers, passages) {
  /** @type {{start: number, end: number, found: number[]}[]} */
  const runs = [];
  for (const { start, end } of sentencesOf(text)) {
    const sentence = text.slice(start, end);
    if (!tellingWords(sentence).length) continue;
    const cited = numbers.filter((each) => each.start >= start && each.start < end).flatMap(({ indices }) => indices);
    const found = restsOn(sentence, cited, passages);
    const run = runs.at(-1);
    if (run && String(run.found.toSorted()) === String(found.toSorted())) run.end = end;
    else runs.push({ start, end, found });
  }
  return runs;
}

/** Takes the marks away again. @param {HTMLElement} body */
export function uncite(body) {
  for (const cite of /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll(".cite"))) cite.replaceWith(cite.dataset.was ?? "");
  body.normalize();
}

/** The texts of an answer that hold sentences. @param {HTMLElement} body */
function unitsOf(body) {
  /** @type {Map<Element, {text: string, nodes: {node: Text, start: number}[]}>} */
  const units = new Map();
  for (const node of textsOf(body)) {
    const unit = node.parentElement?.closest(UNITS);
    if (!unit || !body.contains(unit) || /^H/.test(unit.tagName) || node.parentElement?.closest(SKIPPED)) continue;
    const held = units.get(unit) ?? { text: "", nodes: [] };
    units.set(unit, held);
    // Cells of a row are words apart.
    if (unit.tagName === "TR" && held.text) held.text += " ";
    held.nodes.push({ node, start: held.text.length });
    held.text += node.data;
  }
  return units.values();
}

/**
 * Takes characters out of a unit, or puts a mark in.
 *
 * @param {{node: Text, start: number}[]} nodes
 * @param {number} at
 * @param {HTMLElement | null} mark
 * @param {number} cut
 */
function change(nodes, at, mark, cut) {
  const { node, start } = /** @type {{node: Text, start: number}} */ (nodes.findLast((each) => each.start < at) ?? nodes[0]);
  const offset = Math.min(at - start, node.length);
  if (mark && offset === node.length) return node.after(mark);
  const rest = node.splitText(offset);
  rest.before(mark ?? el("span", { class: "cite", "data-was": rest.data.slice(0, cut) }));
  rest.deleteData(0, cut);
}

/** @param {Source} source @param {number} number @param {string} said @param {(source: Source) => void} open */
function markOf(source, number, said, open) {
  const mark = el("button", { type: "button", "data-testid": "cite", "data-side": source.side, "aria-label": t("sources.mark", { number, name: source.title }), "data-number": number });
  const show = () => showCard(mark, source, said, open);
  // Not where a dialog that closes leaves the pointer on it.
  mark.addEventListener("pointermove", () => shown === mark || show());
  mark.addEventListener("focus", () => {
    if (left !== mark) show();
    left = null;
  });
  mark.addEventListener("pointerleave", hideSoon);
  mark.addEventListener("blur", hideSoon);
  // A finger cannot hover: its first tap shows the card, which has a button.
  mark.addEventListener("click", () => (matchMedia("(hover: none)").matches ? show() : openFrom(mark, source, open)));
  return el("span", { class: "cite" }, mark);
}

/** The mark whose document is open; it has the focus back when that is closed, without its card. @type {HTMLElement | null} */
let left = null;

/** @param {HTMLElement} mark @param {Source} source @param {(source: Source) => void} open */
function openFrom(mark, source, open) {
  hide();
  left = source.side === "private" ? mark : null;
  open(source);
}

/** The mark whose card is open. @type {HTMLElement | null} */
let shown = null;
let hiding = 0;
function hide() {
  shown = null;
  clearTimeout(hiding);
  byId("passage-card").hidden = true;
}
/** Not at once: the pointer may be on its way to the card. */
function hideSoon() {
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    const card = byId("passage-card");
    if (!card.matches(":hover, :focus-within")) hide();
  }, HIDE_MS);
}

// It may lie over what one wants to press: Escape takes it away wherever the focus is, and does nothing else.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !shown) return;
  event.stopPropagation();
  if (byId("passage-card").contains(document.activeElement)) {
    left = shown;
    shown.focus();
  }
  hide();
}, { capture: true });

/** @param {HTMLElement} mark @param {Source} source @param {string} said @param {(source: Source) => void} open */
function showCard(mark, source, said, open) {
  clearTimeout(hiding);
  shown = mark;
  const card = byId("passage-card");
  const opener = pressable({ class: "link" }, () => openFrom(mark, source, open), t(source.side === "private" ? "sources.open" : "sources.show"));
  card.dataset.side = source.side;
  card.onpointerleave = hideSoon;
  card.replaceChildren(
    el("p", { class: "card-title" }, el("strong", {}, source.title), source.page ? ` ${t("sources.page", { page: source.page })}` : ""),
    el("blockquote", {}, ...withShared(source.text.trim(), stemsOf(said))),
    opener,
  );
  card.hidden = false;
  place(card, mark);
}

/** A passage with the words marked that an answer has from it. @param {string} text @param {Set<string>} shared @returns {(Node | string)[]} */
function withShared(text, shared) {
  const pieces = [];
  let at = 0;
  for (const word of tellingWords(text)) {
    if (!shared.has(word.stem)) continue;
    pieces.push(text.slice(at, word.start), el("mark", {}, text.slice(word.start, word.end)));
    at = word.end;
  }
  return [...pieces, text.slice(at)];
}
