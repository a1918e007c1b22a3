/** One document in the list: its name, how far it has come, what can be done with it. */

import { tool } from "../core/controls.js";
import { el, formatBytes, icon } from "../core/dom.js";
import { localized, t } from "../core/strings.js";

/** @typedef {import("../core/types.js").StoredFile} StoredFile */
/** @typedef {import("../core/types.js").IngestionEvent} IngestionEvent */

/** The stages in their order; `stage` is what the device calls it once it is done. */
const STEPS = ["stored", "parsed", "chunked", "embedded", "indexed"];

/**
 * @typedef {object} RowActions
 * @property {(row: DocumentRow) => void} remove
 * @property {(row: DocumentRow) => void} cancel
 * @property {(row: DocumentRow) => void} retry
 * @property {(row: DocumentRow) => void} preview
 * @property {(row: DocumentRow) => void} share
 */

export class DocumentRow {
  /** Unknown until the device has the file. @type {string | null} */
  id = null;
  collection = "";
  /** Whether others of its name in its collection go once it is ready. */
  replaces = false;
  /** The file itself, while this page still has it. @type {File | null} */
  file = null;
  /** Ends what is under way. */
  controller = new AbortController();
  /** With the other keys of the device. */
  shared = false;
  /** Another key shares it: its name, "" being the device's own. @type {string | undefined} */
  sharedBy;
  #detail = el("p", { class: "document-detail" });
  #segments = STEPS.map(() => el("span", { class: "progress-fill" }));
  #progress = el(
    "div",
    { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 },
    ...this.#segments.map((fill) => el("span", { class: "progress-segment" }, fill)),
  );
  #tools = el("div", { class: "document-tools" });

  /**
   * @param {string} name
   * @param {number} bytes
   * @param {RowActions} actions
   */
  constructor(name, bytes, actions) {
    this.name = name;
    this.bytes = bytes;
    this.actions = actions;
    this.#progress.setAttribute("aria-label", t("documents.progress", { name }));
    this.check = el("input", { type: "checkbox", class: "document-check", hidden: true, "aria-label": t("select.one", { name }) });
    this.element = el(
      "li",
      { class: "document", "data-testid": "document", "data-status": "sending" },
      this.check,
      icon("icon-document", "icon document-icon"),
      el("div", { class: "document-text" }, el("p", { class: "document-name", title: name }, name), this.#detail, this.#progress),
      this.#tools,
    );
    this.#advance(0, 0);
    this.#drawTools();
  }

  /** @param {"sending" | StoredFile["status"]} status */
  is(status) {
    return this.element.dataset.status === status;
  }

  focus() {
    /** @type {HTMLElement | null} */ (this.#tools.querySelector("button"))?.focus();
  }

  /** It is sent, or read, once more. */
  restart() {
    this.controller = new AbortController();
    this.#setStatus(this.id === null ? "sending" : "uploaded");
    this.#advance(this.id === null ? 0 : 1, 0);
  }

  /** How much of the file has been sent. @param {number} fraction 0 to 1 */
  sending(fraction) {
    this.#advance(0, fraction);
  }

  /** The device has the file. @param {StoredFile} file */
  stored(file) {
    this.id = file.id;
    this.collection = file.collection ?? "";
    this.shared = file.shared ?? false;
    this.sharedBy = file.shared_by;
    this.#advance(1, 0);
    this.#setStatus(file.status, localized(file, "status_details"));
  }

  /** @param {Pick<IngestionEvent, "status" | "message"> & Partial<IngestionEvent>} event */
  ingested(event) {
    const step = STEPS.indexOf(event.stage ?? "");
    if (step >= 0) {
      const { done = 0, total = 0 } = event;
      if (done < total) this.#advance(step, done / total, { done, total });
      else this.#advance(step + 1, 0);
      // Pages are counted where they are looked at as pictures, which takes seconds each.
      if (event.stage === "parsed" && done < total) this.#tell(t("documents.stage.pages", { page: done + 1, total }));
    }
    this.#setStatus(event.status, localized(event, "message"));
  }

  /** The file could not be taken. @param {string} message */
  failed(message) {
    this.#setStatus("error", message);
  }

  /** @param {"sending" | StoredFile["status"]} status @param {string} [message] Of one that was read, what of it was not. */
  #setStatus(status, message) {
    this.element.dataset.status = status;
    this.#progress.hidden = status !== "uploaded" && status !== "sending";
    if (status === "processed") {
      this.#detail.textContent = [formatBytes(this.bytes), this.#sharing(), message].filter(Boolean).join(" · ");
    }
    if (status === "error") this.#detail.textContent = message || t("documents.error");
    this.#drawTools();
  }

  #sharing() {
    if (this.sharedBy === undefined) return this.shared && t("documents.shared");
    return this.sharedBy ? t("documents.shared.by", { name: this.sharedBy }) : t("documents.shared.device");
  }

  #drawTools() {
    const working = this.is("sending") || this.is("uploaded");
    const others = this.sharedBy !== undefined;
    const { name, actions: { remove, cancel, retry, preview, share } } = this;
    this.#tools.replaceChildren(
      ...(working ? [this.#tool("icon-close", t("documents.cancel", { name }), "cancel-document", cancel)] : []),
      ...(this.is("error") && (this.id !== null || this.file) ? [this.#tool("icon-again", t("documents.retry", { name }), "retry-document", retry)] : []),
      ...(this.is("processed") ? [this.#tool("icon-eye", t("documents.preview", { name }), "preview-document", preview)] : []),
      ...(this.is("processed") && !others ? [this.#tool("icon-people", t(this.shared ? "documents.unshare" : "documents.share", { name }), "share-document", share)] : []),
      ...(working || others ? [] : [this.#tool("icon-trash", t(this.id === null ? "documents.dismiss" : "documents.remove", { name }), "delete-document", remove)]),
    );
  }

  /** @param {string} symbol @param {string} label @param {string} testid @param {(row: DocumentRow) => void} act */
  #tool(symbol, label, testid, act) {
    const made = tool(symbol, label, testid, () => act(this));
    made.classList.add(testid);
    return made;
  }

  /** @param {number} step Index of the step under way @param {number} fraction @param {{done: number, total: number}} [count] */
  #advance(step, fraction, count) {
    const current = Math.min(step, STEPS.length - 1);
    this.#segments.forEach((fill, index) => {
      fill.style.width = `${index < step ? 100 : index === step ? fraction * 100 : 0}%`;
    });
    const percent = Math.round(fraction * 100);
    this.#progress.setAttribute("aria-valuenow", String(Math.round(((step + fraction) / STEPS.length) * 100)));
    const stage = t(`documents.stage.${STEPS[current]}`);
    this.#tell(count ? t("documents.stage.count", { stage, ...count }) : step === 0 && percent ? t("documents.stage.percent", { stage, percent }) : stage);
  }

  /** @param {string} stage In words. */
  #tell(stage) {
    this.#detail.textContent = stage;
    this.#progress.setAttribute("aria-valuetext", stage);
  }
}
