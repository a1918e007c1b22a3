/** Asking before a document is deleted. */

import { byId } from "./dom.js";

/**
 * Opens the dialog; focus is on the safe answer, Escape takes it, and focus returns afterwards.
 *
 * @param {string} name Name of the document.
 * @returns {Promise<boolean>}
 */
export function confirmDelete(name) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  byId("confirm-title").textContent = `Delete ${name}?`;
  byId("confirm-text").textContent =
    "The file, its passages and everything made from them are removed from this device. This cannot be undone.";
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "confirm"), { once: true });
  });
}
