/** One row of the document list: its name, how far it has come, and the button that deletes it. */

import { el, formatBytes, icon } from "./dom.js";

/** @typedef {import("./types.js").IngestionEvent} IngestionEvent */
/** @typedef {import("./types.js").StoredFile} StoredFile */

/** The stages of ingestion, each with what is being done until its event comes. */
const STEPS = [
  { stage: "stored", label: "Sending" },
  { stage: "parsed", label: "Reading" },
  { stage: "chunked", label: "Splitting into passages" },
  { stage: "embedded", label: "Embedding" },
  { stage: "indexed", label: "Indexing" },
];

export class DocumentRow {
  /** Set once the device has the file. @type {string | null} */
  id = null;
  #detail = el("p", { class: "document-detail" });
  #segments = STEPS.map(() => el("span", { class: "progress-fill" }));
  #progress = el(
    "div",
    { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 },
    ...this.#segments.map((fill) => el("span", { class: "progress-segment" }, fill)),
  );
  #delete;

  /**
   * @param {string} name
   * @param {number} bytes
   * @param {(row: DocumentRow) => void} onDelete
   */
  constructor(name, bytes, onDelete) {
    this.name = name;
    this.bytes = bytes;
    this.#progress.setAttribute("aria-label", `Progress of ${name}`);
    this.#delete = el(
      "button",
      { class: "button quiet", type: "button", "data-testid": "delete-document", "aria-label": `Delete ${name}`, disabled: true },
      icon("icon-trash"),
    );
    this.#delete.addEventListener("click", () => onDelete(this));
    this.element = el(
      "li",
      { class: "document", "data-testid": "document", "data-status": "sending" },
      icon("icon-document", "icon document-icon"),
      el("div", { class: "document-text" }, el("p", { class: "document-name", title: name }, name), this.#detail, this.#progress),
      this.#delete,
    );
    this.#advance(0, 0);
  }

  /** @param {"sending" | StoredFile["status"]} status */
  is(status) {
    return this.element.dataset.status === status;
  }

  focus() {
    this.#delete.focus();
  }

  /** How much of the file has been sent. @param {number} fraction 0 to 1 */
  sending(fraction) {
    this.#advance(0, fraction);
  }

  /** The device has the file. @param {StoredFile} file */
  stored(file) {
    this.id = file.id;
    this.#delete.disabled = false;
    this.#advance(1, 0);
    this.#setStatus(file.status, file.status_details);
  }

  /** @param {Pick<IngestionEvent, "status" | "message"> & Partial<IngestionEvent>} event */
  ingested(event) {
    const step = STEPS.findIndex(({ stage }) => stage === event.stage);
    if (step >= 0) {
      const { done = 0, total = 0 } = event;
      // Embedding is the one stage that tells how far it has come.
      if (event.stage === "embedded" && done < total) this.#advance(step, done / total, `${done} of ${total}`);
      else this.#advance(step + 1, 0);
    }
    this.#setStatus(event.status, event.message);
  }

  /** The file could not be taken. @param {string} message */
  failed(message) {
    this.#delete.disabled = false;
    if (this.id === null) this.#delete.setAttribute("aria-label", `Remove ${this.name} from the list`);
    this.#setStatus("error", message);
  }

  /** @param {StoredFile["status"]} status @param {string | null} [message] */
  #setStatus(status, message) {
    this.element.dataset.status = status;
    this.#progress.hidden = status !== "uploaded";
    if (status === "processed") this.#detail.textContent = formatBytes(this.bytes);
    if (status === "error") {
      this.#detail.textContent = message ?? "This document could not be read. Delete it and try another file.";
    }
  }

  /** @param {number} step Index of the step under way @param {number} fraction @param {string} [count] */
  #advance(step, fraction, count) {
    const current = Math.min(step, STEPS.length - 1);
    this.#segments.forEach((fill, index) => {
      fill.style.width = `${index < step ? 100 : index === step ? fraction * 100 : 0}%`;
    });
    const percent = Math.round(fraction * 100);
    this.#progress.setAttribute("aria-valuenow", String(Math.round(((step + fraction) / STEPS.length) * 100)));
    const { label } = /** @type {{label: string}} */ (STEPS[current]);
    this.#detail.textContent = count ? `${label}, ${count}` : step === 0 && percent ? `${label}, ${percent} %` : label;
    this.#progress.setAttribute("aria-valuetext", this.#detail.textContent);
  }
}
