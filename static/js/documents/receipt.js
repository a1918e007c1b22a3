/** A deletion shown to have worked: the search for the documents' own words, before and after. */

import { ApiError, getText, search } from "../core/api.js";
import { announce, el, icon, shortened } from "../core/dom.js";
import { locale, t } from "../core/strings.js";

/** Characters of a document that are searched for, passages asked for, and documents looked for at most. */
const WORDS = 240;
const HITS = 20;
const LOOKED_FOR = 5;

/** @typedef {{id: string, query: string}} Looked */

export class Receipt {
  /** @param {string} names @param {Looked[]} looked @param {number} before Passages that were found. @param {number} redacted Messages. */
  constructor(names, looked, before, redacted) {
    this.names = names;
    this.looked = looked;
    this.before = before;
    this.redacted = redacted;
  }

  /** Searches for documents that are about to be deleted. @param {{id: string, name: string}[]} documents @param {number} redacted */
  static async prepare(documents, redacted) {
    const looked = await Promise.all(documents.slice(0, LOOKED_FOR).map(async ({ id, name }) => {
      const words = await getText(id, 0, WORDS).then(({ text }) => text.trim(), unknown);
      return { id, query: words || name };
    }));
    const names = documents.length === 1 ? shortened(documents[0]?.name ?? "") : t("documents", { count: documents.length });
    return new Receipt(names, looked, await hits(looked), redacted);
  }

  /** Searches again. @returns {Promise<HTMLElement>} */
  async show() {
    const after = await hits(this.looked);
    const result = after ? t("receipt.still", { count: after }) : this.before ? t("receipt.none", { count: this.before }) : t("receipt.nothing");
    const said = this.redacted ? `${result} ${t("receipt.redacted", { count: this.redacted })}` : result;
    const title = t("receipt.deleted", { name: this.names });
    announce(`${title} ${said}`);
    const close = el("button", { class: "icon-button small", type: "button", "aria-label": t("prompt.dismiss") }, icon("icon-close"));
    const receipt = el("div", { class: "receipt", "data-testid": "receipt", "data-hits": after },
      icon(after === 0 ? "icon-check" : "icon-warning"),
      el("div", {}, el("strong", {}, title), el("p", {}, said), el("time", {}, new Date().toLocaleString(locale))),
      close);
    close.addEventListener("click", () => receipt.remove());
    return receipt;
  }
}

/** How many of their passages are found. @param {Looked[]} looked */
async function hits(looked) {
  const counts = await Promise.all(looked.map(async ({ id, query }) => {
    const found = await search(query, HITS).catch(unknown);
    return /** @type {any[]} */ (found || []).filter((hit) => hit.document === id).length;
  }));
  return counts.reduce((sum, count) => sum + count, 0);
}

/** A search that fails must not keep a document from being deleted. @param {unknown} error */
function unknown(error) {
  if (error instanceof ApiError) return "";
  throw error;
}
