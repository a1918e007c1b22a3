/** HTTP to the device. Every failure is an `ApiError` whose message a person can act on. */

/** @typedef {import("./types.js").StoredFile} StoredFile */
/** @typedef {import("./types.js").Peer} Peer */

const UNREACHABLE = "The device did not answer. Check that DRAGON is still running, then try again.";

export class ApiError extends Error {
  /** @param {string} message @param {number} status 0 when there was no reply at all */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Fires `signed-out` when the device answers 401. */
export const session = new EventTarget();

/**
 * The reply's JSON, or the `ApiError` it stands for.
 *
 * @param {number} status
 * @param {string} body
 * @returns {any}
 */
function unwrap(status, body) {
  /** @type {any} */
  let value = null;
  try {
    value = body ? JSON.parse(body) : null;
  } catch {
    // Not JSON: some proxy's page. The status says all there is to say.
  }
  if (status >= 200 && status < 300) return value;
  if (status === 401) session.dispatchEvent(new Event("signed-out"));
  throw new ApiError(value?.error?.message ?? `The device answered with status ${status}.`, status);
}

/** @param {string} path @param {RequestInit} [init] @returns {Promise<any>} */
async function request(path, init) {
  /** @type {Response} */
  let response;
  /** @type {string} */
  let body;
  try {
    response = await fetch(path, init);
    body = await response.text();
  } catch {
    throw new ApiError(UNREACHABLE, 0);
  }
  return unwrap(response.status, body);
}

/** @returns {Promise<{model: string, peer: Peer, documents: number}>} */
export function getStatus() {
  return request("/api/status");
}

/** All documents, newest first. @returns {Promise<StoredFile[]>} */
export async function listFiles() {
  return (await request("/v1/files")).data;
}

/** @param {string} id @returns {Promise<StoredFile>} */
export function getFile(id) {
  return request(`/v1/files/${encodeURIComponent(id)}`);
}

/** @param {string} id @returns {Promise<void>} */
export function deleteFile(id) {
  return request(`/v1/files/${encodeURIComponent(id)}`, { method: "DELETE" });
}

/**
 * Sends one file. XMLHttpRequest, since fetch does not tell how much has been sent.
 *
 * @param {File} file
 * @param {(fraction: number) => void} onProgress
 * @returns {Promise<StoredFile>}
 */
export function uploadFile(file, onProgress) {
  const form = new FormData();
  form.append("purpose", "user_data");
  form.append("file", file);
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    xhr.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) onProgress(event.loaded / event.total);
    };
    xhr.onerror = () => reject(new ApiError(UNREACHABLE, 0));
    xhr.onload = () => {
      try {
        resolve(unwrap(xhr.status, xhr.responseText));
      } catch (error) {
        reject(error);
      }
    };
    xhr.open("POST", "/v1/files");
    xhr.send(form);
  });
}
