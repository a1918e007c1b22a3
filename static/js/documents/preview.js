/** A document in a dialog: a PDF page by page as it looks, a text a window of it at a time. */

import { getPage, getView, messageOf } from "../core/api.js";
import { byId, el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";
import { gridOf } from "./grid.js";
import { withMarks } from "./marked.js";

const WINDOW = 12_000;
/** Characters before a passage. */
const BEFORE = 2000;

/**
 * A PDF opens as it looks, any other document as its text.
 *
 * @param {string} id
 * @param {string} name
 * @param {{start?: number | null, end?: number | null}} [passage] That is marked and scrolled to.
 * @param {boolean} [asText] Even a PDF.
 */
export async function openPreview(id, name, { start, end } = {}, asText = false) {
  const [from, to] = [start ?? 0, end ?? 0];
  const first = from < WINDOW - BEFORE ? 0 : from - BEFORE;
  const dialog = /** @type {HTMLDialogElement} */ (byId("preview"));
  const view = byId("preview-text");
  byId("preview-title").textContent = name;
  view.replaceChildren();
  if (!dialog.open) dialog.showModal();
  view.scrollTop = 0;
  try {
    const piece = await getView(id, first, first + WINDOW, from, to);
    if (piece.pages && !asText) return await page(piece.page, piece.pages);
    if (piece.pages) view.append(button(t("preview.looks"), "as-it-looks", () => openPreview(id, name, { start, end })));
    if (first > 0) view.append(button(t("preview.begin"), "from-the-beginning", () => openPreview(id, name, {}, asText)));
    add(piece);
    view.querySelector("mark")?.scrollIntoView({ block: "center" });
  } catch (error) {
    fail(error);
  }

  /** @param {import("../core/types.js").View} piece */
  function add(piece) {
    view.append(...(piece.html === null ? drawn(piece, from, to) : [withMarks(piece.html)]));
    if (piece.end >= piece.length) return;
    const next = button(t("preview.more", { percent: Math.round((100 * piece.end) / piece.length) }), "more-text", async () => {
      next.remove();
      try {
        add(await getView(id, piece.end, piece.end + WINDOW, from, to));
      } catch (error) {
        fail(error);
      }
    });
    view.append(next);
  }

  /** @param {number} number @param {number} pages */
  async function page(number, pages) {
    const turn = (/** @type {string} */ glyph, /** @type {string} */ label, /** @type {number} */ to) => {
      const turning = el("button", { class: "icon-button", type: "button", "aria-label": t(label), "data-testid": label, disabled: to < 1 || to > pages }, icon(glyph));
      turning.addEventListener("click", () => page(to, pages).catch(fail));
      return turning;
    };
    const { picture, mark } = await getPage(id, number, from, to);
    const image = el("img", { class: "page", "data-testid": "page-picture", alt: t("preview.page", { number, pages }), src: `data:image/png;base64,${picture}` });
    view.replaceChildren(
      el("div", { class: "page-bar" }, turn("icon-back", "preview.back", number - 1), el("span", { role: "status" }, t("preview.page", { number, pages })), turn("icon-chevron", "preview.next", number + 1),
        button(t("preview.text"), "as-text", () => openPreview(id, name, { start, end }, true))),
      image);
    await image.decode();
    view.scrollTop = mark === null ? 0 : image.offsetTop + mark * image.height - view.clientHeight / 3;
  }

  /** @param {unknown} error */
  function fail(error) {
    view.append(el("p", { class: "notice", role: "alert" }, messageOf(error)));
  }
}

/** @param {string} label @param {string} testid @param {() => void} press */
function button(label, testid, press) {
  const made = el("button", { class: "button small", type: "button", "data-testid": testid }, label);
  made.addEventListener("click", press);
  return made;
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
