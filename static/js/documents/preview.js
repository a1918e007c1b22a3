/** A document's text in a dialog, a window of it at a time. */

import { getView, messageOf } from "../core/api.js";
import { byId, el } from "../core/dom.js";
import { t } from "../core/strings.js";
import { gridOf } from "./grid.js";
import { withMarks } from "./marked.js";

const WINDOW = 12_000;

/** @param {string} id @param {string} name */
export async function openPreview(id, name) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("preview"));
  const text = byId("preview-text");
  byId("preview-title").textContent = name;
  text.replaceChildren();
  dialog.showModal();
  text.scrollTop = 0;
  await more(id, 0);

  /** @param {string} key @param {number} start */
  async function more(key, start) {
    try {
      const piece = await getView(key, start, start + WINDOW);
      text.append(piece.html === null ? drawn(piece) : withMarks(piece.html));
      if (piece.end >= piece.length) return;
      const next = el("button", { class: "button small", type: "button" }, t("preview.more", { percent: Math.round((100 * piece.end) / piece.length) }));
      next.addEventListener("click", () => {
        next.remove();
        more(key, piece.end);
      });
      text.append(next);
    } catch (error) {
      text.append(el("p", { class: "notice", role: "alert" }, messageOf(error)));
    }
  }
}

/** Text as it is, or a whole table as a grid. @param {{text: string, start: number, end: number, length: number}} piece */
function drawn({ text, start, end, length }) {
  const whole = start === 0 && end >= length;
  const lines = text.split("\n").filter(Boolean).map((line) => ({ text: line, marked: false }));
  return (whole && gridOf(lines)) || document.createTextNode(text);
}
