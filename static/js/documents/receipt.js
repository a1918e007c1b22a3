/** A deletion shown to have worked: the search for the document's own words, before and after. */

import { ApiError, getText, search } from "../core/api.js";
import { announce, el, icon } from "../core/dom.js";
import { language, t } from "../core/strings.js";

/** Characters of the document that are searched for, and passages asked for. */
const WORDS = 240;
const HITS = 20;

export class Receipt {
  /** @param {string} id @param {string} name @param {string} query @param {number} before Its passages that were found. */
  constructor(id, name, query, before) {
    this.id = id;
    this.name = name;
    this.query = query;
    this.before = before;
  }

  /** Searches for a document that is about to be deleted. @param {string} id @param {string} name */
  static async prepare(id, name) {
    const words = await getText(id, 0, WORDS).then(({ text }) => text.trim(), unknown);
    return new Receipt(id, name, words || name, await hits(id, words || name));
  }

  /** Searches again. @returns {Promise<HTMLElement>} */
  async show() {
    const after = await hits(this.id, this.query);
    const result = after === 0 ? t("receipt.none", { count: this.before }) : t("receipt.still", { count: after });
    announce(t("receipt.announced", { name: this.name, result }));
    const close = el("button", { class: "icon-button small", type: "button", "aria-label": t("prompt.dismiss") }, icon("icon-close"));
    const receipt = el("div", { class: "receipt", "data-testid": "receipt", "data-hits": after },
      icon(after === 0 ? "icon-check" : "icon-warning"),
      el("div", {}, el("strong", {}, t("receipt.deleted", { name: this.name })), el("p", {}, t("receipt.searched", { result })), el("time", {}, new Date().toLocaleString(language))),
      close);
    close.addEventListener("click", () => receipt.remove());
    return receipt;
  }
}

/** @param {string} id @param {string} query */
async function hits(id, query) {
  const found = await search(query, HITS).catch(unknown);
  return /** @type {any[]} */ (found || []).filter((hit) => hit.document === id).length;
}

/** A search that fails must not keep a document from being deleted. @param {unknown} error */
function unknown(error) {
  if (error instanceof ApiError) return "";
  throw error;
}
