/** Deleting documents: saying first what goes and what stays, offering to redact what chats quote, and a receipt. */

import { deleteDocuments, getQuoted } from "../core/api.js";
import { confirmed } from "../core/confirm.js";
import { byId, shortened } from "../core/dom.js";
import { t } from "../core/strings.js";
import { Receipt } from "./receipt.js";

/** @typedef {{id: string, name: string}} Named */

/**
 * Asks, and deletes. Raises `ApiError`.
 *
 * @param {Named[]} documents
 * @returns {Promise<"cancel" | "deleted" | "redacted">}
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
  if (chosen === "cancel") return "cancel";
  const redact = chosen === "checked";
  const receipt = await Receipt.prepare(documents, redact ? messages : 0);
  await deleteDocuments(ids, redact);
  byId("receipts").replaceChildren(await receipt.show());
  return redact ? "redacted" : "deleted";
}
