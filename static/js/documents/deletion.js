/** Deleting documents: saying first what stays of them in conversations, offering to redact that, and a receipt. */

import { deleteDocuments, getQuoted } from "../core/api.js";
import { confirmed } from "../core/confirm.js";
import { byId } from "../core/dom.js";
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
  const quoted = messages
    ? `${t("documents.delete.quoted", { count: messages, conversations: t("conversations", { count: conversations }) })} ${t("documents.delete.keeps", { phrase: t("phrase.redacted") })}`
    : t("documents.delete.unquoted");
  const chosen = await confirmed({
    title: count === 1 ? t("documents.delete", { name }) : t("documents.delete.many", { count }),
    text: `${t("documents.delete.text", { count })}\n${quoted}`,
    yes: t("delete"),
    other: messages ? t("documents.delete.redact") : "",
    danger: true,
  });
  if (chosen === "cancel") return "cancel";
  const redact = chosen === "other";
  const receipt = await Receipt.prepare(documents, redact ? messages : 0);
  await deleteDocuments(ids, redact);
  byId("receipts").replaceChildren(await receipt.show());
  return redact ? "redacted" : "deleted";
}
