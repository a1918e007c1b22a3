/** Asking before something is deleted or replaced. */

import { byId } from "./dom.js";
import { t } from "./strings.js";

/** @param {string} name What is to be deleted. @param {string} text What that means. */
export const confirmDelete = async (name, text) =>
  (await confirmed({ title: t("documents.delete", { name }), text, yes: t("delete"), danger: true })) === "yes";

/**
 * Opens the dialog; focus is on Cancel, Escape takes it, and focus returns afterwards.
 *
 * @param {object} question
 * @param {string} question.title
 * @param {string} question.text
 * @param {string} question.yes
 * @param {string} [question.other] Another way to go on.
 * @param {boolean} [question.danger] What is done cannot be undone.
 * @returns {Promise<"cancel" | "other" | "yes">}
 */
export function confirmed({ title, text, yes, other = "", danger = false }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-other").textContent = other;
  byId("confirm-other").hidden = !other;
  byId("confirm-yes").textContent = yes;
  for (const id of ["confirm-yes", "confirm-other"]) byId(id).classList.toggle("danger", danger);
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    // A question before this one may tell only now that it was closed; that was a way of cancelling it.
    dialog.onclose = () => dialog.open || resolve(/** @type {any} */ (dialog.returnValue || "cancel"));
  });
}
