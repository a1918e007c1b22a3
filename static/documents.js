/** The documents on the device: listing, uploading and deleting them. */

import { ApiError, deleteFile, listFiles, uploadFile } from "./api.js";
import { confirmDelete } from "./confirm.js";
import { DocumentRow } from "./document-row.js";
import { announce, byId } from "./dom.js";
import { follow } from "./ingestion.js";

/** @typedef {{ready: string[], waiting: number, refused: number}} DocumentCounts */

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

  /** @param {(counts: DocumentCounts) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.#input.addEventListener("change", () => {
      this.upload([...(this.#input.files ?? [])]);
      this.#input.value = "";
    });
  }

  /** Adds what the device has below what this page has uploaded meanwhile. */
  async load() {
    try {
      const files = await listFiles();
      const known = new Set(this.#rows.map(({ id }) => id));
      for (const file of files.filter(({ id }) => !known.has(id))) {
        const row = this.#newRow(file.filename, file.bytes);
        this.#rows.push(row);
        this.#list.append(row.element);
        row.stored(file);
        this.#follow(row);
      }
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
    if (row.id === null || !row.is("uploaded")) return;
    const controller = new AbortController();
    this.#following.set(row, controller);
    try {
      await follow(row.id, (event) => row.ingested(event), controller.signal);
      if (controller.signal.aborted) return;
      announce(row.is("processed") ? `${row.name} is ready` : `${row.name} could not be read`);
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
    else byId("upload-button").focus();
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
    const ready = this.#rows.filter((row) => row.is("processed")).map(({ name }) => name);
    const waiting = this.#rows.filter((row) => row.is("sending") || row.is("uploaded")).length;
    const refused = this.#rows.filter((row) => row.is("error")).length;
    this.onChange({ ready, waiting, refused });
  }
}

/** @param {unknown} error */
function messageOf(error) {
  if (error instanceof ApiError) return error.message;
  throw error;
}
