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
 * @param {string} [question.check] What is done as well, unless one unticks it.
 * @param {boolean} [question.danger] What is done cannot be undone.
 * @returns {Promise<"cancel" | "other" | "yes" | "checked">} `checked`: yes, with what is done as well.
 */
export function confirmed({ title, text, yes, other = "", check = "", danger = false }) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-other").textContent = other;
  byId("confirm-other").hidden = !other;
  const box = /** @type {HTMLInputElement} */ (byId("confirm-check"));
  box.checked = true;
  byId("confirm-check-text").textContent = check;
  byId("confirm-check-row").hidden = !check;
  byId("confirm-yes").textContent = yes;
  byId("confirm-yes").classList.toggle("danger", danger);
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    // A question before this one may tell only now that it was closed; that was a way of cancelling it.
    dialog.onclose = () => {
      const chosen = /** @type {"cancel" | "other" | "yes"} */ (dialog.returnValue || "cancel");
      if (!dialog.open) resolve(chosen === "yes" && check && box.checked ? "checked" : chosen);
    };
  });
}
