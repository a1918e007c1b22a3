/** Which documents may be used in this chat: all, or some collections and documents. */

import { place } from "../core/controls.js";
import { byId, el } from "../core/dom.js";
import { t } from "../core/strings.js";

/** @typedef {import("../core/types.js").StoredFile} StoredFile */

export class Scope {
  /** @type {StoredFile[]} */
  #all = [];
  /** The project that is asked; empty: none. */
  #project = "";
  /** Ids of the documents that may be used; null: all. @type {Set<string> | null} */
  #chosen = null;
  /** Null until they are listed; what is deleted meanwhile must not be asked for. @type {Set<string> | null} */
  #known = null;
  #menu = byId("scope-menu");
  #label = byId("scope-label");

  constructor() {
    this.#menu.addEventListener("toggle", (event) => {
      if (/** @type {ToggleEvent} */ (event).newState !== "open") return;
      this.#draw();
      place(this.#menu, byId("scope"));
    });
    this.#menu.addEventListener("change", (event) => this.#changed(/** @type {HTMLInputElement} */ (event.target)));
    this.#render();
  }

  /** What goes with a question. */
  get params() {
    return this.#chosen ? { documents: [...this.#chosen].filter((id) => this.#known?.has(id) ?? true) } : {};
  }

  /** @param {StoredFile[]} files Those that can be searched. @param {Set<string>} known Ids of all that there are. */
  setFiles(files, known) {
    this.#all = files;
    this.#known = known;
    this.#render();
  }

  /** Only a project's documents are there to be chosen. @param {string} project */
  setProject(project) {
    this.#project = project;
    this.#render();
  }

  get #files() {
    return this.#project ? this.#all.filter(({ collection }) => collection === this.#project) : this.#all;
  }

  get #whole() {
    return this.#project ? t("scope.project", { name: this.#project }) : t("scope.all");
  }

  /** @param {string[] | null} documents */
  set(documents) {
    this.#chosen = documents && new Set(documents);
    this.#render();
  }

  /** @param {HTMLInputElement} box */
  #changed(box) {
    const { kind } = box.dataset;
    const chosen = this.#chosen ?? new Set(this.#files.map(({ id }) => id));
    const ids = kind === "document" ? [box.value] : this.#files.filter((file) => (file.collection ?? "") === box.value).map(({ id }) => id);
    if (kind === "all") this.#chosen = box.checked ? null : new Set();
    else {
      for (const id of ids) if (box.checked) chosen.add(id); else chosen.delete(id);
      this.#chosen = chosen.size === this.#files.length ? null : chosen;
    }
    this.#draw();
    this.#render();
    /** @type {HTMLElement | null} */ (this.#menu.querySelector(`[data-kind="${kind}"][value="${CSS.escape(box.value)}"]`))?.focus();
  }

  #draw() {
    const has = (/** @type {string} */ id) => this.#chosen?.has(id) ?? true;
    const collections = [...new Set(this.#files.map(({ collection }) => collection ?? ""))].sort();
    const groups = collections.map((name) => {
      const files = this.#files.filter(({ collection }) => (collection ?? "") === name);
      const head = name ? box("collection", name, name, files.every(({ id }) => has(id)), files.some(({ id }) => has(id))) : null;
      return el("div", { class: name ? "scope-group" : "" }, ...(head ? [head] : []), ...files.map(({ id, filename }) => box("document", id, filename, has(id))));
    });
    this.#menu.replaceChildren(
      el("p", { class: "menu-title" }, t("scope")),
      ...(this.#files.length
        ? [box("all", "all", this.#whole, this.#chosen === null, this.#chosen === null || this.#chosen.size > 0), ...groups]
        : [el("p", { class: "empty" }, t("scope.empty"))]),
    );
  }

  #render() {
    const count = this.#files.filter(({ id }) => this.#chosen?.has(id)).length;
    this.#label.textContent = this.#chosen === null ? this.#whole : count === 0 ? t("scope.none") : t("scope.some", { chosen: count, count: this.#files.length });
    byId("scope").classList.toggle("is-set", this.#chosen !== null);
  }
}

/** @param {string} kind @param {string} value @param {string} label @param {boolean} checked @param {boolean} [some] */
function box(kind, value, label, checked, some = checked) {
  const input = el("input", { type: "checkbox", value, "data-kind": kind, checked });
  input.indeterminate = some && !checked;
  return el("label", { class: `check is-${kind}` }, input, el("span", {}, label));
}
