/** The words of a search, marked where they are found: in the list, and in the conversation that is opened. */

import { el, textsOf } from "../core/dom.js";
import { plain } from "../core/strings.js";

const WORD = /[\p{L}\p{N}_]+/gu;
const highlight = new Highlight();
CSS.highlights.set("found", highlight);

/** Ranges of the words in a text that begin with a word of the search, whatever their case and accents. @param {string} text @param {string} search */
function places(text, search) {
  const wanted = [...search.matchAll(WORD)].map(([word]) => plain(word));
  return [...text.matchAll(WORD)].filter(([word]) => wanted.some((begin) => plain(word).startsWith(begin))).map(({ 0: word, index }) => ({ start: index, end: index + word.length }));
}

/** Characters of a text before what was found, where little of it is seen. */
const BEFORE = 20;

/** The text with what was found in marks, from a little before that. @param {string} text @param {string} search @returns {(Node | string)[]} */
export function marked(text, search) {
  const found = places(text, search);
  const first = found[0]?.start ?? 0;
  // A word is not cut.
  let at = first > 2 * BEFORE ? text.indexOf(" ", first - BEFORE) + 1 : 0;
  /** @type {(Node | string)[]} */
  const pieces = at ? ["…"] : [];
  for (const { start, end } of found) {
    pieces.push(text.slice(at, start), el("mark", {}, text.slice(start, end)));
    at = end;
  }
  return [...pieces, text.slice(at)];
}

/** Marks the words in what is shown, and scrolls to the first. @param {HTMLElement} root @param {string} search Empty: none. */
export function showFound(root, search) {
  highlight.clear();
  if (!search) return;
  /** @type {Range | null} */
  let first = null;
  for (const node of textsOf(root)) {
    if (!node.parentElement?.closest(".bubble, .text")) continue;
    for (const { start, end } of places(node.data, search)) {
      const range = new Range();
      range.setStart(node, start);
      range.setEnd(node, end);
      highlight.add(range);
      first ??= range;
    }
  }
  first?.startContainer.parentElement?.scrollIntoView({ block: "center" });
}
