/** Asking before something is deleted. */

import { byId } from "./dom.js";

/**
 * Opens the dialog; focus is on the safe answer, Escape takes it, and focus returns afterwards.
 *
 * @param {string} name What is to be deleted.
 * @param {string} text What that means.
 * @returns {Promise<boolean>}
 */
export function confirmDelete(name, text) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  byId("confirm-title").textContent = `Delete ${name}?`;
  byId("confirm-text").textContent = text;
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirm"), { once: true });
  });
}
