/** Dropping files anywhere on the page. */

import { byId } from "../core/dom.js";

/** @param {(files: File[]) => void} onFiles */
export function acceptDrops(onFiles) {
  const overlay = byId("drop");
  // Enter and leave also fire for every element passed over; the count is zero only outside.
  let depth = 0;
  /** @param {number} value */
  const setDepth = (value) => {
    depth = value;
    overlay.hidden = depth <= 0;
  };

  addEventListener("dragenter", (event) => {
    if (carriesFiles(event)) setDepth(depth + 1);
  });
  addEventListener("dragleave", (event) => {
    if (carriesFiles(event)) setDepth(depth - 1);
  });
  addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    setDepth(0);
    onFiles([...(event.dataTransfer?.files ?? [])]);
  });
}

/** @param {DragEvent} event */
function carriesFiles(event) {
  return event.dataTransfer?.types.includes("Files") ?? false;
}
