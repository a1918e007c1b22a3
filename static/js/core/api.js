/** HTTP to the device. Every failure is an `ApiError` whose message a person can act on. */

import { localized, t } from "./strings.js";

/** @typedef {import("./types.js").StoredFile} StoredFile */
/** @typedef {import("./types.js").Conversation} Conversation */
/** @typedef {import("./types.js").Message} Message */
/** @typedef {import("./types.js").Model} Model */

/** The header that says what an error's message is made of. */
const LOCALIZABLE = "X-Dragon-Localizable";

export class ApiError extends Error {
  /** @param {string} message @param {number} status 0 when there was no reply at all */
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Fires `signed-out` when the device answers 401. */
export const session = new EventTarget();

/** The message to show for a failure; anything but an `ApiError` is a bug. @param {unknown} error */
export function messageOf(error) {
  if (error instanceof ApiError) return error.message;
  throw error;
}

/**
 * The reply's JSON, or the `ApiError` it stands for.
 *
 * @param {number} status
 * @param {string} body
 * @param {string | null} message What the header says of the error's.
 * @returns {any}
 */
function unwrap(status, body, message) {
  /** @type {any} */
  let value = null;
  try {
    value = body ? JSON.parse(body) : null;
  } catch {
    // Not JSON: some proxy's page. The status says all there is to say.
  }
  if (status >= 200 && status < 300) return value;
  if (status === 401) session.dispatchEvent(new Event("signed-out"));
  const error = value?.error ?? { message: t("link.status", { status }) };
  throw new ApiError(localized({ ...error, ...(message && { localizable: { message: JSON.parse(message) } }) }, "message"), status);
}

/**
 * @param {string} path
 * @param {string} [method]
 * @param {object} [json]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function request(path, method = "GET", json, signal) {
  /** @type {Response} */
  let response;
  /** @type {string} */
  let body;
  const sent = json && { body: JSON.stringify(json), headers: { "Content-Type": "application/json" } };
  try {
    response = await fetch(path, { method, signal, ...sent });
    body = await response.text();
  } catch {
    throw new ApiError(t("link.silent"), 0);
  }
  return unwrap(response.status, body, response.headers.get(LOCALIZABLE));
}

const id = encodeURIComponent;

export const getStatus = () => request("/api/status");

/** Ends the session of this browser. */
export const signOut = () => request("/api/sign-out", "POST");

// Models

/** What was found, the names of the one that answers and of the one that was chosen, and whether that is being loaded. @returns {Promise<{data: Model[], current: string, next: string, loading: boolean}>} */
export const listModels = () => request("/api/models");

/**
 * Has a model write a short answer beside the one that answers.
 *
 * @param {string} name
 * @param {AbortSignal} signal
 * @returns {Promise<import("./types.js").Trial>}
 */
export const tryModel = (name, signal) => request("/api/models/try", "POST", { name }, signal);

/** Gives a model server the key that it asks for. @param {string} name @param {string} key */
export const giveKey = (name, key) => request("/api/models/key", "POST", { name, key });

/** Has a model take over as soon as it is loaded, or at the next start. @param {string} name */
export const chooseModel = (name) => request("/api/models/use", "POST", { name });

/** @returns {Promise<import("./types.js").Offer[]>} */
export const listOffers = async () => (await request("/api/models/offers")).data;

/** Has a model fetched from the hub. @param {string} name */
export const getOffer = (name) => request("/api/models/get", "POST", { name });

/** Ends that, and deletes what has come. @param {string} name */
export const cancelOffer = (name) => request("/api/models/get/cancel", "POST", { name });

// Conversations

/**
 * Those that are pinned, then the latest first, or those that are archived.
 *
 * @param {string} search
 * @param {Conversation} [last] Where to go on: the last one listed so far.
 * @param {string} [project] Only those of it.
 * @param {boolean} [archived]
 * @returns {Promise<{data: Conversation[], has_more: boolean}>}
 */
export const listConversations = (search, last, project = "", archived = false) =>
  request(`/api/conversations?search=${id(search)}&archived=${archived}${project && `&project=${id(project)}`}${last ? `&before=${last.updated_at}&after=${id(last.id)}` : ""}`);

/** @param {string} key @returns {Promise<Conversation & {messages: Message[]}>} */
export const getConversation = (key) => request(`/api/conversations/${id(key)}`);

/** @param {string} key @param {{title?: string, leaf?: string, project?: string, pinned?: boolean, archived?: boolean, private?: boolean}} change @returns {Promise<Conversation>} */
export const changeConversation = (key, change) => request(`/api/conversations/${id(key)}`, "PATCH", change);

/** @param {string} key */
export const deleteConversation = (key) => request(`/api/conversations/${id(key)}`, "DELETE");

/** @param {string} key @param {"markdown" | "json"} kind */
export const exportAddress = (key, kind) => `/api/conversations/${id(key)}/export?as=${kind}`;

/** Where each word of an answer came from. @param {string} key @param {string} message */
export const getTokens = async (key, message) =>
  (await request(`/api/conversations/${id(key)}/messages/${id(message)}/tokens`)).tokens;

/** What left the device for an answer. @param {string} answer */
export const getLedger = (answer) => request(`/api/ledger/${id(answer)}`);

// Projects

/** @returns {Promise<import("./types.js").Project[]>} */
export const listProjects = async () => (await request("/api/projects")).data;

/** Begins one, or changes its instruction. @param {string} name @param {string} instruction @returns {Promise<{name: string}>} */
export const putProject = (name, instruction) => request("/api/projects", "PUT", { name, instruction });

/** @param {string} name Of one without documents. */
export const deleteProject = (name) => request(`/api/projects?name=${id(name)}`, "DELETE");

// Folders

/** @returns {Promise<import("./types.js").Folder[]>} */
export const listFolders = async () => (await request("/api/folders")).data;

/** Has the device watch one of its machine's folders. @param {string} path */
export const addFolder = (path) => request("/api/folders", "POST", { path });

/** @param {string} key */
export const removeFolder = (key) => request(`/api/folders/${id(key)}`, "DELETE");

/** @param {string} key @returns {Promise<{data: {path: string, state: string, problem: string | null, localizable?: import("./types.js").Localizable}[], has_more: boolean}>} */
export const listFolderFiles = (key) => request(`/api/folders/${id(key)}/files`);

// Documents

/** All documents, newest first. @returns {Promise<StoredFile[]>} */
export const listFiles = async () => (await request("/v1/files")).data;

/** @param {string} key @returns {Promise<StoredFile>} */
export const getFile = (key) => request(`/v1/files/${id(key)}`);

/**
 * How many messages have words of these documents, and how many conversations.
 *
 * @param {string[]} documents
 * @returns {Promise<{messages: number, conversations: number}>}
 */
export const getQuoted = (documents) => request("/api/documents/quoted", "POST", { documents });

/** @param {string[]} documents @param {boolean} redact Whether their words go from conversations, too. */
export const deleteDocuments = (documents, redact) => request("/api/documents/delete", "POST", { documents, redact });

/** @param {string} key @param {"cancel" | "retry" | "share" | "unshare"} action @returns {Promise<StoredFile>} */
export const changeFile = (key, action) => request(`/v1/files/${id(key)}/${action}`, "POST");

/**
 * A range of a document's text, by character offsets.
 *
 * @param {string} key
 * @param {number} start
 * @param {number} end
 * @returns {Promise<{text: string, start: number, end: number, length: number, page: number | null}>}
 */
export const getText = (key, start, end) => request(`/v1/files/${id(key)}/text?start=${start}&end=${end}`);

/**
 * A part of a document's text, and of Markdown as HTML that the device made safe, in whole blocks.
 * In the HTML two private characters stand around what is from `mark` on `until` there.
 *
 * @param {string} key
 * @param {number} start
 * @param {number} end
 * @param {number} [mark]
 * @param {number} [until]
 * @returns {Promise<import("./types.js").View>}
 */
export const getView = (key, start, end, mark = 0, until = 0) =>
  request(`/api/documents/${id(key)}/view?start=${start}&end=${end}&mark=${mark}&until=${until}`);

/**
 * A page of a PDF, with what is from `mark` on `until` there marked.
 *
 * @param {string} key
 * @param {number} number
 * @param {number} mark
 * @param {number} until
 * @returns {Promise<{picture: string, mark: number | null}>} Base64, and where the mark begins, as a fraction of the height.
 */
export const getPage = (key, number, mark, until) => request(`/api/documents/${id(key)}/page?number=${number}&mark=${mark}&until=${until}`);

/** The passages of private documents nearest to a text. @param {string} query @param {number} limit */
export const search = async (query, limit) =>
  (await request("/v1/search", "POST", { query, top_k: limit })).data;

/**
 * Sends one file. XMLHttpRequest, since fetch does not report upload progress.
 *
 * @param {File} file
 * @param {string} collection
 * @param {boolean} replace Whether it takes the place of others of its name there.
 * @param {(fraction: number) => void} onProgress
 * @param {AbortSignal} signal
 * @returns {Promise<StoredFile>}
 */
export function uploadFile(file, collection, replace, onProgress, signal) {
  const form = new FormData();
  form.append("purpose", "user_data");
  if (collection) form.append("collection", collection);
  if (replace) form.append("replace", "true");
  form.append("file", file);
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest();
    signal.addEventListener("abort", () => xhr.abort());
    xhr.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) onProgress(event.loaded / event.total);
    };
    xhr.onerror = () => reject(new ApiError(t("link.silent"), 0));
    xhr.onabort = () => reject(new ApiError(t("documents.cancelled.unsent"), 0));
    xhr.onload = () => {
      try {
        resolve(unwrap(xhr.status, xhr.responseText, xhr.getResponseHeader(LOCALIZABLE)));
      } catch (error) {
        reject(error);
      }
    };
    xhr.open("POST", "/v1/files");
    xhr.send(form);
  });
}
