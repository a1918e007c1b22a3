/** A document in a dialog: a PDF page by page as it looks, a text a window of it at a time. */

import { getPage, getView, messageOf } from "../core/api.js";
import { button, pressable } from "../core/controls.js";
import { byId, el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";
import { drawn } from "./passage.js";

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
    view.append(...drawn(piece, from, to));
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
    const turn = (/** @type {string} */ symbol, /** @type {string} */ label, /** @type {number} */ to) =>
      pressable({ class: "icon-button", "aria-label": t(label), "data-testid": label, disabled: to < 1 || to > pages }, () => page(to, pages).catch(fail), icon(symbol));
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
