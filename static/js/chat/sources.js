/** The passages an answer rests on: one line until it is opened, then a column for each side. */

import { getView } from "../core/api.js";
import { el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";
import { gridOf } from "../documents/grid.js";
import { withMarks } from "../documents/marked.js";

/** @typedef {import("../core/types.js").Source} Source */
/** @typedef {import("../core/types.js").Side} Side */

/** Characters shown around a passage. */
const AROUND = 320;

export class SourcesView {
  #line = el("summary", {});
  #columns = el("div", { class: "columns" });
  element = el("details", { class: "sources", "data-testid": "sources", hidden: true }, this.#line, this.#columns);

  constructor() {
    this.element.addEventListener("toggle", () => {
      const rows = this.#columns.querySelectorAll("details");
      if (rows.length === 1 && rows[0]) rows[0].open = true;
      this.element.dataset.unfolded = "true";
    }, { once: true });
  }

  /** @param {Source[]} sources @param {Source[]} closest Passages shown where there is no source. */
  show(sources, closest) {
    const sides = /** @type {[Side, Source[]][]} */ (/** @type {Side[]} */ (["private", "public"]).map((side) => [side, distinct(sources, side)])).filter(([, own]) => own.length);
    const none = !sides.length && closest.length > 0;
    if (none) sides.push(["private", closest]);
    this.#line.replaceChildren(
      icon("icon-chevron", "icon chevron"),
      el("span", { class: "sources-label" }, t(none ? "sources.closest" : "sources")),
      ...sides.map(([side, own]) => el("span", { class: "sources-side", "data-side": side }, icon(`icon-${side}`), el("span", { class: "sources-titles" }, [...new Set(own.map(({ title }) => title))].join(", ")))),
    );
    this.#columns.replaceChildren(...sides.map(([side, own]) => column(side, own)));
    this.element.hidden = sides.length === 0;
  }
}

/** Those of a side, the weightiest first; two hops of an answer may share one. @param {Source[]} sources @param {Side} side */
function distinct(sources, side) {
  const passages = new Set();
  return sources
    .filter((source) => source.side === side)
    .map((source) => (source.deleted ? { ...source, title: t("sources.deleted"), text: t("sources.deleted.text") } : source))
    .sort((one, other) => other.weight - one.weight)
    .filter(({ id, start, text }) => passages.size < passages.add(`${id} ${start} ${text}`).size);
}

/** @param {Side} side @param {Source[]} sources */
function column(side, sources) {
  const heading = el("p", { class: "side-head" }, icon(`icon-${side}`), t(`sources.${side}`), el("span", {}, t(`sources.${side}.origin`)));
  return el("div", { class: "side", "data-side": side }, heading, el("ul", {}, ...sources.map((source) => el("li", {}, row(source)))));
}

/** @param {Source} source */
function row(source) {
  const passage = el("blockquote", { class: "passage", "data-testid": "passage", tabindex: 0 }, el("mark", {}, source.text));
  const details = el(
    "details",
    { class: "source", "data-testid": "source", "data-side": source.side },
    el(
      "summary",
      {},
      icon("icon-chevron", "icon chevron"),
      el("span", { class: "visually-hidden" }, t(`sources.${source.side}.title`)),
      el("span", { class: "source-title", title: source.title }, source.title),
      el("span", { class: "source-start" }, source.text.trim().replace(/^#+ /, "")),
      el("span", { class: "source-page" }, place(source)),
    ),
    passage,
    ...(source.query ? [el("pre", { class: "source-query", "data-testid": "source-query" }, source.query)] : []),
  );
  if (source.side === "private") details.addEventListener("toggle", () => surround(passage, source), { once: true });
  return details;
}

/** The lines that are there from their beginning to their end. @param {{text: string, start: number, end: number, length: number}} around @param {number} from Where the passage begins in it @param {number} to and ends. */
function wholeLines({ text, start, end, length }, from, to) {
  let at = 0;
  const lines = text.split("\n").map((line) => {
    const begin = at;
    at += [...line].length + 1;
    return { text: line, marked: begin < to && at - 1 > from };
  });
  return lines.filter(({ text: line, marked }, index) => line && (marked || !((index === 0 && start > 0) || (index === lines.length - 1 && end < length))));
}

/** The page, and how certain it is where it was recognised in a picture. @param {Source} source */
function place({ page, confidence }) {
  return [page ? t("sources.page", { page }) : "", confidence != null ? t("sources.recognised", { confidence }) : ""].filter(Boolean).join(" · ");
}

/** Shows the passage where it stands in its document. @param {HTMLElement} passage @param {Source} source */
async function surround(passage, source) {
  const { id, start, end } = source;
  if (start == null || end == null || end <= start) return;
  try {
    const around = await getView(id, Math.max(0, start - AROUND), end + AROUND, start, end);
    const more = (/** @type {boolean} */ there) => (there ? "…" : "");
    const [before, after] = [more(around.start > 0), more(around.end < around.length)];
    if (around.html !== null) {
      passage.replaceChildren(before, withMarks(around.html), after);
    } else {
      // Offsets count characters; a string's count UTF-16 units.
      const characters = [...around.text];
      const [from, to] = [start - around.start, end - around.start];
      const grid = gridOf(wholeLines(around, from, to));
      if (grid) passage.replaceChildren(grid);
      else passage.replaceChildren(
        before + characters.slice(0, from).join("").trimStart(),
        el("mark", {}, characters.slice(from, to).join("")),
        characters.slice(to).join("").trimEnd() + after,
      );
    }
    const mark = passage.querySelector("mark");
    passage.scrollTop = (mark?.offsetTop ?? 0) - passage.clientHeight / 3;
  } catch {
    // The document is gone, and its passages with it.
  }
}
