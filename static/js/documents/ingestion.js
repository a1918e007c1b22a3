/** Following a document from upload to searchable. */

import { ApiError, getFile } from "../core/api.js";

/** @typedef {import("../core/types.js").IngestionEvent} IngestionEvent */

const RETRY_MS = 1000;

/**
 * Calls `onEvent` for every stage until the document is processed or has failed.
 *
 * @param {string} id
 * @param {(event: Pick<IngestionEvent, "status" | "message"> & Partial<IngestionEvent>) => void} onEvent
 * @param {AbortSignal} signal Ends the following early, as when the document is deleted.
 */
export async function follow(id, onEvent, signal) {
  while (!signal.aborted) {
    if (await listen(id, onEvent, signal)) return;
    // The stream broke off: the file itself says whether ingestion has ended meanwhile.
    const file = await getFile(id).catch(unlessUnreachable);
    if (file && file.status !== "uploaded") {
      const { status, status_details: message = null, localizable } = file;
      return onEvent({ status, message, ...(localizable && { localizable: { message: localizable.status_details } }) });
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/**
 * @param {string} id
 * @param {(event: IngestionEvent) => void} onEvent
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} Whether the last stage was seen; if not, the stream broke off.
 */
function listen(id, onEvent, signal) {
  return new Promise((resolve) => {
    const stream = new EventSource(`/v1/files/${encodeURIComponent(id)}/events`);
    /** @param {boolean} complete */
    const end = (complete) => {
      stream.close();
      resolve(complete);
    };
    signal.addEventListener("abort", () => end(true), { once: true });
    stream.onerror = () => end(false);
    stream.onmessage = (message) => {
      /** @type {IngestionEvent} */
      const event = JSON.parse(message.data);
      onEvent(event);
      if (event.status !== "uploaded") end(true);
    };
  });
}

/** A device that restarts goes on with the ingestion, so its silence is waited out. @param {unknown} error */
function unlessUnreachable(error) {
  if (error instanceof ApiError && error.status === 0) return null;
  throw error;
}
