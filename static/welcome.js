/** What an empty conversation shows: the way from nothing to a first answer. */

import { byId, plural } from "./dom.js";

/** @typedef {import("./documents.js").DocumentCounts} DocumentCounts */

/** @param {boolean} visible */
export function showWelcome(visible) {
  byId("welcome").hidden = !visible;
}

/**
 * Marks the upload as done once a document is ready, and makes asking the next step.
 *
 * @param {DocumentCounts} counts
 */
export function updateWelcome(counts) {
  const uploaded = counts.ready.length > 0;
  byId("step-upload").classList.toggle("is-done", uploaded);
  byId("step-upload-text").textContent = uploadText(counts);
  byId("step-upload-button").textContent = uploaded ? "Add another" : "Choose a file";
  byId("step-upload-button").classList.toggle("primary", !uploaded);
  byId("step-ask-button").classList.toggle("primary", uploaded);
}

/** @param {DocumentCounts} counts */
function uploadText({ ready, waiting, refused }) {
  if (waiting > 0) return `Preparing ${plural(waiting, "document")}.`;
  if (ready.length === 1) return `${ready[0]} is ready.`;
  if (ready.length > 1) return `${plural(ready.length, "document")} are ready.`;
  if (refused > 0) return "That document could not be read. The list of documents says why.";
  return "A text file, Markdown or PDF. It stays on this device.";
}
