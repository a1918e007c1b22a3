/** What a model thinks before it answers, between `<think>` and `</think>` or up to the latter: folded. */

import { el, icon, textsOf } from "../core/dom.js";
import { t } from "../core/strings.js";

const BEGIN = "<think>";
const END = "</think>";
const THOUGHT = /^\s*(?:<think>)?[^]*?<\/think>\s*/;

/** A text without what was thought before it. @param {string} text */
export const said = (text) => (text.includes(END) ? text.replace(THOUGHT, "") : text.trimStart().startsWith(BEGIN) ? "" : text);

export class Thoughts {
  element = el("button", { class: "thoughts", type: "button", "aria-expanded": "false", "data-testid": "thoughts", hidden: true });

  /** @param {HTMLElement} body Holds the answer's blocks. */
  constructor(body) {
    this.body = body;
    this.element.addEventListener("click", () => {
      this.element.setAttribute("aria-expanded", String(body.classList.toggle("shows-thought")));
    });
  }

  /** Tells the blocks that were thought from those that are said. @param {boolean} writing */
  fold(writing) {
    const blocks = /** @type {(HTMLElement & {source: string})[]} */ ([...this.body.children]);
    const begun = blocks[0]?.source.trimStart().startsWith(BEGIN) ?? false;
    const last = blocks.findIndex(({ source }) => source.includes(END));
    this.element.hidden = !begun && last < 0;
    if (this.element.hidden) return;
    this.element.replaceChildren(icon("icon-chevron", "icon chevron"), t(writing && last < 0 ? "answer.thinking" : "answer.thoughts"));
    const open = last < 0 ? blocks.length : last;
    blocks.forEach((block, index) => block.classList.toggle("thought", index < open || (index === last && !split(block))));
    const first = textsOf(blocks[0])[0];
    if (begun && first?.data.trimStart().startsWith(BEGIN)) first.data = first.data.replace(BEGIN, "").trimStart();
  }
}

/** Puts what a block has up to the end of the thought apart. @param {HTMLElement} block @returns {boolean} Whether it could: the end may not be in its HTML yet. */
function split(block) {
  if (block.querySelector(".thought")) return true;
  const node = textsOf(block).find(({ data, parentElement }) => data.includes(END) && !parentElement?.closest(".tail"));
  if (!node) return false;
  const range = new Range();
  range.setStart(block, 0);
  range.setEnd(node, node.data.indexOf(END));
  const thought = el("div", { class: "thought" }, range.extractContents());
  node.data = node.data.replace(END, "").trimStart();
  block.prepend(thought);
  return true;
}
