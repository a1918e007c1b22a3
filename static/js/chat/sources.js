/** The passages an answer rests on, those that were only read, and those that come nearest: one line until it is opened, then a column for each side. */

import { getView } from "../core/api.js";
import { el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";
import { drawn } from "../documents/passage.js";
import { keyOf } from "./citations.js";

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
      const rows = this.#columns.querySelectorAll(":scope > .side details");
      if (rows.length === 1 && rows[0]) rows[0].open = true;
      this.element.dataset.unfolded = "true";
    }, { once: true });
  }

  /** @param {Source[]} used In the order of their numbers. @param {Source[]} sources All that were read. @param {Source[]} closest Passages of one's own documents that come nearest. */
  show(used, sources, closest) {
    const keys = new Set(used.map(keyOf));
    const rest = distinct(sources).filter((source) => !keys.has(keyOf(source)));
    const named = used.length ? used : rest.length ? rest : closest;
    const label = t(used.length ? "sources" : rest.length ? "sources.rest" : "sources.closest");
    this.#line.replaceChildren(
      icon("icon-chevron", "icon chevron"),
      el("span", { class: "sources-label" }, label),
      ...sidesOf(named).map(([side, own]) => el("span", { class: "sources-side", "data-side": side }, icon(`icon-${side}`), el("span", { class: "sources-titles" }, [...new Set(own.map(titled))].join(", ")))),
    );
    const columns = (/** @type {Source[]} */ sources, numbered = false) => sidesOf(sources).map(([side, own]) => column(side, own, numbered ? used : []));
    const also = (/** @type {string} */ label, /** @type {Source[]} */ own) => (own.length ? [el("div", { class: "columns sources-rest", "data-testid": label }, el("p", {}, t(label)), ...columns(own))] : []);
    // Beside what the cloud says, one's own nearest passages are about something else.
    const near = named === closest || named.some(({ side }) => side === "public") ? [] : closest;
    this.#columns.replaceChildren(...columns(named, true), ...also("sources.rest", used.length ? rest : []), ...also("sources.closest", near));
    this.element.hidden = named.length === 0;
  }

  /** Unfolds a passage. @param {Source} source */
  unfold(source) {
    this.element.open = true;
    const found = /** @type {HTMLDetailsElement | undefined} */ ([...this.#columns.querySelectorAll("details")].find(({ dataset }) => dataset.key === keyOf(source)));
    if (!found) return;
    found.open = true;
    found.scrollIntoView({ block: "nearest" });
    found.querySelector("summary")?.focus();
  }
}

/** @param {Source[]} sources @returns {[Side, Source[]][]} */
const sidesOf = (sources) => /** @type {Side[]} */ (["private", "public"]).map((side) => /** @type {[Side, Source[]]} */ ([side, sources.filter((source) => source.side === side)])).filter(([, own]) => own.length);

/** The weightiest first. @param {Source[]} sources */
const distinct = (sources) => [...new Map(sources.toSorted((one, other) => other.weight - one.weight).map((source) => [keyOf(source), source])).values()];

/** @param {Source} source */
const titled = ({ deleted, title }) => (deleted ? t("sources.deleted") : title);

/** @param {Side} side @param {Source[]} sources @param {Source[]} used */
function column(side, sources, used) {
  const heading = el("p", { class: "side-head" }, icon(`icon-${side}`), t(`sources.${side}`), el("span", {}, t(`sources.${side}.origin`)));
  return el("div", { class: "side", "data-side": side }, heading, el("ul", {}, ...sources.map((source) => el("li", {}, row(source, used.indexOf(source) + 1)))));
}

/** @param {Source} source @param {number} number That of its marks; 0: none. */
function row(source, number) {
  const title = titled(source);
  const text = source.deleted ? t("sources.deleted.text") : source.text;
  const passage = el("blockquote", { class: "passage", "data-testid": "passage", tabindex: 0 }, el("mark", {}, text));
  const details = el(
    "details",
    { class: "source", "data-testid": "source", "data-side": source.side, "data-used": number > 0, "data-key": keyOf(source) },
    el(
      "summary",
      {},
      icon("icon-chevron", "icon chevron"),
      el("span", { class: "visually-hidden" }, t(`sources.${source.side}.title`)),
      ...(number ? [el("span", { class: "source-number", "data-side": source.side }, String(number))] : []),
      el("span", { class: "source-title", title }, title),
      el("span", { class: "source-start" }, text.trim().replace(/^#+ /, "")),
      el("span", { class: "source-page" }, place(source)),
    ),
    passage,
    ...(source.query ? [el("pre", { class: "source-query", "data-testid": "source-query" }, source.query)] : []),
  );
  if (source.side === "private") details.addEventListener("toggle", () => surround(passage, source), { once: true });
  return details;
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
    passage.replaceChildren(...drawn(around, start, end, true));
    const mark = passage.querySelector("mark");
    passage.scrollTop = (mark?.offsetTop ?? 0) - passage.clientHeight / 3;
  } catch {
    // The document is gone, and its passages with it.
  }
}

/** On paper an answer has the passages under it that it rests on. @param {HTMLElement} log */
export function unfoldOnPaper(log) {
  /** @type {HTMLDetailsElement[]} */
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (log.querySelectorAll(".sources:not([open]), .source[data-used]:not([open])"))];
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
  });
}
