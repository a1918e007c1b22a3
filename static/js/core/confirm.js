/** Asking before something is deleted or replaced. */

import { byId } from "./dom.js";

/** @param {string} name What is to be deleted. @param {string} text What that means. */
export const confirmDelete = (name, text) => confirmed(`Delete ${name}?`, text, "Keep", "Delete");

/**
 * Opens the dialog; focus is on the safe answer, Escape takes it, and focus returns afterwards.
 *
 * @param {string} title
 * @param {string} text
 * @param {string} no
 * @param {string} yes
 * @returns {Promise<boolean>}
 */
export function confirmed(title, text, no, yes) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-no").textContent = no;
  byId("confirm-yes").textContent = yes;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirm"), { once: true });
  });
}
