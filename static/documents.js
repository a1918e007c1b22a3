/** The documents on the device: listing, uploading and deleting them. */

import { ApiError, deleteFile, listFiles, uploadFile } from "./api.js";
import { confirmDelete } from "./confirm.js";
import { DocumentRow } from "./document-row.js";
import { announce, byId } from "./dom.js";
import { follow } from "./ingestion.js";

/** @typedef {import("./types.js").StoredFile} StoredFile */

export class Documents {
  /** In the order shown. @type {DocumentRow[]} */
  #rows = [];
  /** Ends the following of a row's ingestion. @type {Map<DocumentRow, AbortController>} */
  #following = new Map();
  /** Files are sent one after another. */
  #sending = Promise.resolve();
  #list = byId("documents");
  #input = /** @type {HTMLInputElement} */ (byId("upload"));
  #error = byId("documents-error");

  /** @param {(names: {ready: string[], waiting: number}) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.#input.addEventListener("change", () => {
      this.upload([...(this.#input.files ?? [])]);
      this.#input.value = "";
    });
  }

  /** Fetches the list; rows of files still being sent stay on top. */
  async load() {
    try {
      const files = await listFiles();
      const sending = this.#rows.filter((row) => row.id === null);
      for (const controller of this.#following.values()) controller.abort();
      this.#following.clear();
      this.#rows = [...sending, ...files.map((file) => this.#rowOf(file))];
      this.#list.replaceChildren(...this.#rows.map((row) => row.element));
      this.#error.hidden = true;
    } catch (error) {
      this.#showError(error);
    }
    this.#changed();
  }

  /** @param {File[]} files */
  upload(files) {
    for (const file of files) {
      const row = this.#newRow(file.name, file.size);
      this.#rows.unshift(row);
      this.#list.prepend(row.element);
      this.#sending = this.#sending.then(() => this.#send(file, row));
    }
    this.#changed();
  }

  /** @param {File} file @param {DocumentRow} row */
  async #send(file, row) {
    try {
      const stored = await uploadFile(file, (fraction) => row.sending(fraction));
      // The same bytes under the same name are the same document, which may be listed already.
      for (const other of this.#rows.filter(({ id }) => id === stored.id)) this.#drop(other);
      row.stored(stored);
      this.#follow(row);
    } catch (error) {
      row.failed(messageOf(error));
      announce(`${row.name} could not be uploaded`);
    }
    this.#changed();
  }

  /** @param {DocumentRow} row */
  async #follow(row) {
    if (row.id === null || row.status !== "uploaded") return;
    const controller = new AbortController();
    this.#following.set(row, controller);
    try {
      await follow(row.id, (event) => row.ingested(event), controller.signal);
      if (controller.signal.aborted) return;
      announce(row.status === "processed" ? `${row.name} is ready` : `${row.name} could not be read`);
    } catch (error) {
      if (!controller.signal.aborted) row.failed(messageOf(error));
    }
    this.#following.delete(row);
    this.#changed();
  }

  /** @param {DocumentRow} row */
  async #delete(row) {
    if (row.id === null) {
      this.#drop(row);
      this.#changed();
      return;
    }
    if (!(await confirmDelete(row.name))) return;
    try {
      await deleteFile(row.id);
    } catch (error) {
      // Gone already, perhaps from another tab: that is what was asked for.
      if (!(error instanceof ApiError && error.status === 404)) return this.#showError(error);
    }
    const index = this.#rows.indexOf(row);
    this.#drop(row);
    this.#error.hidden = true;
    const next = this.#rows[index] ?? this.#rows[index - 1];
    if (next) next.focus();
    else this.#input.focus();
    announce(`${row.name} deleted`);
    this.#changed();
  }

  /** @param {DocumentRow} row */
  #drop(row) {
    this.#following.get(row)?.abort();
    this.#following.delete(row);
    this.#rows = this.#rows.filter((other) => other !== row);
    row.element.remove();
  }

  /** @param {StoredFile} file */
  #rowOf(file) {
    const row = this.#newRow(file.filename, file.bytes);
    row.stored(file);
    this.#follow(row);
    return row;
  }

  /** @param {string} name @param {number} bytes */
  #newRow(name, bytes) {
    return new DocumentRow(name, bytes, (row) => this.#delete(row));
  }

  /** @param {unknown} error */
  #showError(error) {
    this.#error.textContent = messageOf(error);
    this.#error.hidden = false;
  }

  #changed() {
    const ready = this.#rows.filter(({ status }) => status === "processed").map(({ name }) => name);
    const waiting = this.#rows.filter(({ status }) => status === "sending" || status === "uploaded").length;
    this.onChange({ ready, waiting });
  }
}

/** @param {unknown} error */
function messageOf(error) {
  if (error instanceof ApiError) return error.message;
  throw error;
}
