/** Deleting documents: saying first what goes and what stays, offering to redact what chats quote, and a receipt. */

import { ApiError, deleteDocuments, getQuoted, getText, search } from "../core/api.js";
import { confirmed } from "../core/confirm.js";
import { tool } from "../core/controls.js";
import { announce, byId, el, icon, shortened } from "../core/dom.js";
import { locale, t } from "../core/strings.js";

/** @typedef {{id: string, name: string}} Named */
/** @typedef {{id: string, query: string}} Looked Words of a document that are searched for. */

/** Characters of a document that are searched for, passages asked for, and documents looked for at most. */
const WORDS = 240;
const HITS = 20;
const LOOKED_FOR = 5;

/**
 * Asks, and deletes. Raises `ApiError`.
 *
 * @param {Named[]} documents
 * @returns {Promise<boolean>} Whether they were deleted.
 */
export async function askAndDelete(documents) {
  const ids = documents.map(({ id }) => id);
  const { messages, conversations } = await getQuoted(ids);
  const [{ name } = { name: "" }] = documents;
  const count = documents.length;
  const chosen = await confirmed({
    title: count === 1 ? t("documents.delete.one", { name: shortened(name) }) : t("documents.delete.many", { count }),
    text: `${t("documents.delete.text", { count })}\n\n${t("documents.delete.stays", { count })}`,
    yes: t("delete"),
    check: messages ? t("documents.delete.redact", { count: messages, conversations: t("conversations", { count: conversations }) }) : "",
    danger: true,
  });
  if (chosen === "cancel") return false;
  const redact = chosen === "checked";
  const looked = await Promise.all(documents.slice(0, LOOKED_FOR).map(wordsOf));
  const before = await hits(looked);
  await deleteDocuments(ids, redact);
  const names = count === 1 ? shortened(name) : t("documents", { count });
  byId("receipts").replaceChildren(receipt(names, before, await hits(looked), redact ? messages : 0));
  return true;
}

/**
 * The deletion shown to have worked.
 *
 * @param {string} names
 * @param {number} before Passages that a search for the documents' own words found,
 * @param {number} after and that it finds now.
 * @param {number} redacted Messages.
 */
function receipt(names, before, after, redacted) {
  const result = after ? t("receipt.still", { count: after }) : before ? t("receipt.none", { count: before }) : t("receipt.nothing");
  const said = redacted ? `${result} ${t("receipt.redacted", { count: redacted })}` : result;
  const title = t("receipt.deleted", { name: names });
  announce(`${title} ${said}`);
  const shown = el("div", { class: "receipt", "data-testid": "receipt", "data-hits": after },
    icon(after === 0 ? "icon-check" : "icon-warning"),
    el("div", {}, el("strong", {}, title), el("p", {}, said), el("time", {}, new Date().toLocaleString(locale))),
    tool("icon-close", t("prompt.dismiss"), "dismiss", () => shown.remove()));
  return shown;
}

/** The beginning of a document, or else its name. @param {Named} document @returns {Promise<Looked>} */
async function wordsOf({ id, name }) {
  const words = await getText(id, 0, WORDS).then(({ text }) => text.trim(), unknown);
  return { id, query: words || name };
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
