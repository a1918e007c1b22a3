/** Marking a passage in the HTML of its document. */

import { el } from "../core/dom.js";

/** Stand around the passage in the device's HTML. */
const BEGIN = "\ue002";
const END = "\ue003";

/** An element with the device's HTML, in which the passage is marked. @param {string} html */
export function withMarks(html) {
  const view = el("div", { class: "view markdown" });
  view.innerHTML = html;
  const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  let inside = false;
  for (const node of texts) {
    const pieces = node.data.split(/([\ue002\ue003])/).flatMap((piece) => {
      if (piece === BEGIN || piece === END) inside = piece === BEGIN;
      else if (piece) return [inside && piece.trim() ? el("mark", {}, piece) : piece];
      return [];
    });
    node.replaceWith(...pieces);
  }
  return view;
}
