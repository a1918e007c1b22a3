/** The passages an answer rests on, in two columns: the person's own and the cloud's. */

import { el, icon } from "./dom.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").Side} Side */

/** @type {Record<Side, {label: string, origin: string}>} */
const SIDES = {
  private: { label: "Private", origin: "your documents" },
  public: { label: "Public", origin: "the cloud’s corpus" },
};

export class SourcesView {
  element = el("div", { class: "sources", role: "group", "aria-label": "Sources", hidden: true });
  /** @type {Map<string, HTMLDetailsElement>} */
  #rows = new Map();

  /** Shows the full list so far; passages that were opened stay open. @param {Source[]} sources */
  show(sources) {
    const opened = new Set([...this.#rows].filter(([, row]) => row.open).map(([key]) => key));
    this.#rows.clear();
    const columns = /** @type {Side[]} */ (["private", "public"]).flatMap((side) => {
      const own = sources.filter((source) => source.side === side).sort((a, b) => b.weight - a.weight);
      return own.length ? [this.#column(side, own, opened)] : [];
    });
    this.element.replaceChildren(...columns);
    this.element.hidden = columns.length === 0;
  }

  /** @param {Side} side @param {Source[]} sources @param {Set<string>} opened */
  #column(side, sources, opened) {
    const { label, origin } = SIDES[side];
    const heading = el("p", { class: "side-head" }, icon(`icon-${side}`), label, el("span", {}, origin));
    const list = el("ul");
    for (const source of sources) {
      const key = `${side} ${source.id}`;
      const row = passage(source, opened.has(key));
      this.#rows.set(key, row);
      list.append(el("li", {}, row));
    }
    return el("div", { class: "side", "data-side": side }, heading, list);
  }
}

/** @param {Source} source @param {boolean} open */
function passage(source, open) {
  const percent = Math.round(Math.min(1, Math.max(0, source.weight)) * 100);
  const fill = el("span", { class: "weight-fill" });
  fill.style.width = `${percent}%`;
  const page = source.page ? `p. ${source.page}` : "";
  return el(
    "details",
    { class: "source", "data-testid": "source", "data-side": source.side, open },
    el(
      "summary",
      {},
      icon("icon-chevron", "icon chevron"),
      icon(`icon-${source.side}`, "icon side-icon"),
      el("span", { class: "visually-hidden" }, `${SIDES[source.side].label} source: `),
      el("span", { class: "source-title", title: source.title }, source.title),
      el("span", { class: "source-page" }, page),
      el("span", { class: "weight", title: `Weight among the ${source.side} passages` }, el("span", { class: "weight-bar" }, fill), `${percent} %`),
    ),
    el("blockquote", { class: "passage", "data-testid": "passage" }, source.text),
  );
}
