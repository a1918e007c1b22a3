/** A document's text in a dialog, a window of it at a time. */

import { getView, messageOf } from "../core/api.js";
import { byId, el } from "../core/dom.js";
import { t } from "../core/strings.js";
import { gridOf } from "./grid.js";
import { withMarks } from "./marked.js";

const WINDOW = 12_000;
/** Characters before a passage. */
const BEFORE = 2000;

/** @param {string} id @param {string} name @param {{start?: number | null, end?: number | null}} [passage] That is marked and scrolled to. */
export async function openPreview(id, name, { start, end } = {}) {
  const [from, to] = [start ?? 0, end ?? 0];
  const first = from < WINDOW - BEFORE ? 0 : from - BEFORE;
  const dialog = /** @type {HTMLDialogElement} */ (byId("preview"));
  const text = byId("preview-text");
  byId("preview-title").textContent = name;
  text.replaceChildren();
  if (!dialog.open) dialog.showModal();
  text.scrollTop = 0;
  if (first > 0) {
    const whole = el("button", { class: "button small", type: "button" }, t("preview.begin"));
    whole.addEventListener("click", () => openPreview(id, name));
    text.append(whole);
  }
  await more(id, first);
  text.querySelector("mark")?.scrollIntoView({ block: "center" });

  /** @param {string} key @param {number} at */
  async function more(key, at) {
    try {
      const piece = await getView(key, at, at + WINDOW, from, to);
      text.append(...(piece.html === null ? drawn(piece, from, to) : [withMarks(piece.html)]));
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

/**
 * Text as it is, with the passage marked, or a whole table as a grid.
 *
 * @param {{text: string, start: number, end: number, length: number}} piece
 * @param {number} from
 * @param {number} to
 * @returns {(Node | string)[]}
 */
function drawn({ text, start, end, length }, from, to) {
  let at = 0;
  // Offsets count characters; a string's count UTF-16 units.
  const characters = [...text];
  const lines = text.split("\n").flatMap((line) => {
    const begin = at;
    at += [...line].length + 1;
    return line ? [{ text: line, marked: begin < to && at - 1 > from }] : [];
  });
  const grid = start === 0 && end >= length ? gridOf(lines) : null;
  if (grid) return [grid];
  if (to <= start || from >= end) return [text];
  const [first, last] = [Math.max(0, from - start), to - start];
  return [characters.slice(0, first).join(""), el("mark", {}, characters.slice(first, last).join("")), characters.slice(last).join("")];
}
