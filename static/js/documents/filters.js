/** What of the documents the list shows, and in which order: a search, a sort and filters. */

import { el, icon } from "../core/dom.js";
import { locale, plain, t } from "../core/strings.js";

/** @typedef {import("./document-row.js").DocumentRow} DocumentRow */

/** @param {DocumentRow} row */
const typeOf = ({ name }) => /\.([^.]{1,8})$/.exec(name)?.[1]?.toUpperCase() ?? t("documents.type.none");
/** @param {DocumentRow} row */
const stateOf = (row) => (row.is("processed") ? "ready" : row.is("error") ? "failed" : "waiting");
const names = new Intl.Collator(locale, { numeric: true });

export class Filters {
  #search = el("input", { type: "search", "data-testid": "find-document", placeholder: t("documents.search"), "aria-label": t("documents.search"), autocomplete: "off", maxlength: 200 });
  #sort = this.#select("sort-documents", t("documents.sort"));
  #type = this.#select("filter-type", t("documents.type"));
  #project = this.#select("filter-project", t("documents.project"));
  #state = this.#select("filter-state", t("documents.state"));
  element = el("div", { class: "filters", role: "search" },
    el("label", { class: "search" }, icon("icon-search"), this.#search),
    el("div", { class: "filter-row" }, this.#sort, this.#type, this.#project, this.#state));

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.#search.addEventListener("input", () => this.onChange());
    this.#options(this.#sort, ["newest", "name", "size"].map((key) => [key, t(`documents.sort.${key}`)]));
  }

  /** What was added is to be seen. */
  reset() {
    for (const control of [this.#search, this.#type, this.#project, this.#state]) control.value = "";
  }

  /** Those to be shown, in their order. @param {DocumentRow[]} rows The newest first. */
  of(rows) {
    this.element.hidden = rows.length < 2;
    if (rows.length < 2) this.reset();
    this.#offer(this.#type, t("documents.type.all"), rows.map(typeOf), (value) => value);
    this.#offer(this.#project, t("documents.project.all"), rows.map(({ collection }) => `=${collection}`), (value) => value.slice(1) || t("documents.uncollected"));
    this.#offer(this.#state, t("documents.state.all"), rows.map(stateOf), (value) => t(`documents.state.${value}`));
    const words = plain(this.#search.value).split(/\s+/).filter(Boolean);
    const found = rows.filter((row) =>
      words.every((word) => plain(row.name).includes(word)) &&
      (!this.#type.value || typeOf(row) === this.#type.value) &&
      (!this.#project.value || `=${row.collection}` === this.#project.value) &&
      (!this.#state.value || stateOf(row) === this.#state.value));
    if (this.#sort.value === "name") return found.sort((one, other) => names.compare(one.name, other.name));
    if (this.#sort.value === "size") return found.sort((one, other) => other.bytes - one.bytes);
    return found;
  }

  /** A choice is offered where there are several. @param {HTMLSelectElement} select @param {string} all @param {string[]} values @param {(value: string) => string} label */
  #offer(select, all, values, label) {
    const distinct = [...new Set(values)].map((value) => /** @type {[string, string]} */ ([value, label(value)])).sort(([, one], [, other]) => names.compare(one, other));
    this.#options(select, [["", all], ...distinct]);
    select.hidden = distinct.length < 2;
  }

  /** @param {HTMLSelectElement} select @param {[string, string][]} options */
  #options(select, options) {
    const made = JSON.stringify(options);
    if (select.dataset.made === made) return;
    select.dataset.made = made;
    const { value } = select;
    select.replaceChildren(...options.map(([each, label]) => el("option", { value: each }, label)));
    select.value = options.some(([each]) => each === value) ? value : options[0]?.[0] ?? "";
  }

  /** @param {string} testid @param {string} label */
  #select(testid, label) {
    const select = el("select", { "data-testid": testid, "aria-label": label });
    select.addEventListener("change", () => this.onChange());
    return select;
  }
}
