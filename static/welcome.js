/** What an empty conversation shows: the way from nothing to a first answer. */

import { byId, plural } from "./dom.js";

/** @param {boolean} visible */
export function showWelcome(visible) {
  byId("welcome").hidden = !visible;
}

/**
 * Marks the upload as done once a document is ready, and makes asking the next step.
 *
 * @param {{ready: string[], waiting: number}} documents
 */
export function updateWelcome({ ready, waiting }) {
  const uploaded = ready.length > 0;
  const [first] = ready;
  byId("step-upload").classList.toggle("is-done", uploaded);
  byId("step-upload-text").textContent =
    waiting > 0
      ? `Preparing ${plural(waiting, "document")}.`
      : first === undefined
        ? "A text file, Markdown or PDF. It stays on this device."
        : ready.length === 1
          ? `${first} is ready.`
          : `${plural(ready.length, "document")} are ready.`;
  byId("step-upload-button").textContent = uploaded ? "Add another" : "Choose a file";
  byId("step-upload-button").classList.toggle("primary", !uploaded);
  byId("step-ask-button").classList.toggle("primary", uploaded);
}
