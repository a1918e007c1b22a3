/** The documents on the device: listed by collection, uploaded, looked into and deleted. */

import { changeFile, listFiles, messageOf, uploadFile } from "../core/api.js";
import { confirmed } from "../core/confirm.js";
import { askAndDelete } from "./deletion.js";
import { DocumentRow } from "./document-row.js";
import { announce, byId, el, shortened } from "../core/dom.js";
import { Filters } from "./filters.js";
import { follow } from "./ingestion.js";
import { openPreview } from "./preview.js";
import { Selection } from "./selection.js";
import { t } from "../core/strings.js";

/** @typedef {import("../core/types.js").StoredFile} StoredFile */
/** @typedef {{files: StoredFile[], known: Set<string>, waiting: number}} DocumentState `files` can be searched; `known` are the ids of all. */

/** Files sent at once. */
const SENDERS = 2;
/** Characters of a project's name. */
const LONGEST_NAME = 64;
/** Rows that are added as the end of the list comes near: browsers search all of a page for fields whenever one is focused. */
const MORE = 50;

export class Documents {
  /** The newest first. @type {DocumentRow[]} */
  #rows = [];
  /** @type {DocumentRow[]} */
  #queue = [];
  #sending = 0;
  #list = byId("documents");
  /** What is to be added at the end of the list. @type {{section: HTMLElement, list: HTMLElement, element: HTMLElement}[]} */
  #coming = [];
  #end = el("div");
  #near = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && this.#grow(MORE), { root: byId("panel-documents"), rootMargin: "1000px" });
  #input = /** @type {HTMLInputElement} */ (byId("upload"));
  #collection = /** @type {HTMLSelectElement} */ (byId("collection"));
  #error = byId("documents-error");
  #project = "";
  /** The project that was chosen here; null: that of the chat. @type {string | null} */
  #chosen = null;
  /** @type {string[]} */
  #projects = [];
  #filters = new Filters(() => this.#draw());
  #selection = new Selection((rows) => this.#delete(rows));
  #actions = {
    remove: (/** @type {DocumentRow} */ row) => this.#delete([row]),
    cancel: (/** @type {DocumentRow} */ row) => this.#cancel(row),
    retry: (/** @type {DocumentRow} */ row) => this.#retry(row),
    share: (/** @type {DocumentRow} */ row) => this.#share(row),
    preview: (/** @type {DocumentRow} */ row) => openPreview(row.id ?? "", row.name),
  };

  /**
   * @param {(state: DocumentState) => void} onChange
   * @param {() => void} onFailed A file was not taken; its row says why.
   * @param {() => void} onAdded The person has added files; what comes next is a question.
   */
  constructor(onChange, onFailed, onAdded) {
    this.onChange = onChange;
    this.onFailed = onFailed;
    this.onAdded = onAdded;
    this.#list.before(this.#filters.element, this.#selection.element);
    this.#collection.addEventListener("change", () => {
      this.#chosen = this.#collection.value;
    });
    this.#input.addEventListener("change", () => {
      this.upload([...(this.#input.files ?? [])]);
      this.#input.value = "";
    });
  }

  /** Documents go into the project that is asked, unless another is chosen. @param {string} project @param {string[]} projects All. */
  setProject(project, projects) {
    if (project !== this.#project) this.#chosen = null;
    this.#project = project;
    this.#projects = projects;
    this.#drawProjects();
  }

  #drawProjects() {
    const names = [...new Set([...this.#projects, ...this.#rows.map(({ collection }) => collection)])].filter(Boolean).sort();
    this.#collection.replaceChildren(el("option", { value: "" }, t("documents.uncollected")), ...names.map((value) => el("option", { value }, value)));
    this.#collection.value = this.#chosen ?? this.#project;
    byId("collection-field").hidden = !names.length;
  }

  /** Deletes all of a collection, once that is confirmed. @param {string} name */
  async deleteCollection(name) {
    await this.#delete(this.#rows.filter(({ collection }) => collection === name));
    return !this.#rows.some(({ collection }) => collection === name);
  }

  /** What the file dialog offers. @param {string[]} accepted Suffixes and media types */
  setAccepted(accepted) {
    this.#input.accept = accepted.join(",");
  }

  choose() {
    this.#input.click();
  }

  /** Adds what the device has below what this page has uploaded meanwhile; what it no longer has goes. */
  async load() {
    const before = this.#rows.filter(({ id }) => id !== null);
    try {
      const files = await listFiles();
      const there = new Set(files.map(({ id }) => id));
      for (const row of before) if (!there.has(row.id ?? "")) this.#drop(row);
      const known = new Set(this.#rows.map(({ id }) => id));
      for (const file of files.filter(({ id }) => !known.has(id))) {
        const row = new DocumentRow(file.filename, file.bytes, this.#actions);
        row.stored(file);
        this.#rows.push(row);
        this.#follow(row);
      }
    } catch (error) {
      this.#showError(messageOf(error));
    }
    this.#changed();
  }

  /** @param {File[]} files @param {string} [folder] That they are from: their collection, if none is given. */
  async upload(files, folder = "") {
    const collection = this.#chosen ?? (folder.slice(0, LONGEST_NAME) || this.#project);
    const known = files.map(({ name }) => name).filter((name) => this.#named(name, collection).some((row) => row.is("processed")));
    const chosen = known.length > 0 ? await confirmed({
      title: known.length === 1 ? t("documents.replace", { name: shortened(known[0] ?? "") }) : t("documents.replace.many", { count: known.length }),
      text: t("documents.replace.text"),
      yes: t("documents.replace.yes"),
      other: t("documents.replace.both"),
    }) : "other";
    if (chosen === "cancel") return;
    const replaces = chosen === "yes";
    this.#filters.reset();
    for (const file of files) {
      const row = new DocumentRow(file.name, file.size, this.#actions);
      row.file = file;
      row.collection = collection;
      row.replaces = replaces;
      this.#rows.unshift(row);
      this.#queue.push(row);
    }
    this.#changed();
    this.onAdded();
    this.#next();
  }

  #next() {
    while (this.#sending < SENDERS && this.#queue.length) this.#send(/** @type {DocumentRow} */ (this.#queue.shift()));
  }

  /** @param {DocumentRow} row */
  async #send(row) {
    const { file, collection, replaces, controller } = row;
    if (!file || controller.signal.aborted) return;
    this.#sending++;
    try {
      const stored = await uploadFile(file, collection, replaces, (fraction) => row.sending(fraction), controller.signal);
      // The same bytes under the same name are the same document, which may be listed already.
      for (const other of this.#rows.filter(({ id }) => id === stored.id)) if (other !== row) this.#drop(other);
      row.stored(stored);
      row.file = null;
      this.#follow(row);
    } catch (error) {
      if (!controller.signal.aborted) {
        row.failed(messageOf(error));
        this.onFailed();
        announce(t("documents.upload.failed", { name: row.name }));
      }
    }
    this.#sending--;
    this.#changed();
    this.#next();
  }

  /** @param {DocumentRow} row */
  async #follow(row) {
    if (row.id === null || !row.is("uploaded")) return;
    const { signal } = row.controller;
    try {
      await follow(row.id, (event) => row.ingested(event), signal);
      if (signal.aborted) return;
      if (row.replaces && row.is("processed")) for (const other of this.#named(row.name, row.collection)) if (other !== row) this.#drop(other);
      if (row.is("error")) this.onFailed();
      announce(t(row.is("processed") ? "documents.ready" : "documents.unreadable", { name: row.name }));
    } catch (error) {
      if (!signal.aborted) row.failed(messageOf(error));
    }
    this.#changed();
  }

  /** Ends the upload or the reading; what the device has of it stays in the list, to be tried again. @param {DocumentRow} row */
  async #cancel(row) {
    row.controller.abort();
    if (row.id === null) {
      row.failed(t("documents.cancelled.unsent"));
    } else {
      try {
        row.stored(await changeFile(row.id, "cancel"));
      } catch (error) {
        this.#showError(messageOf(error));
      }
    }
    announce(t("documents.cancelled", { name: row.name }));
    this.#changed();
    row.focus();
  }

  /** Lets the other keys of the device read it, or no more. @param {DocumentRow} row */
  async #share(row) {
    try {
      row.stored(await changeFile(row.id ?? "", row.shared ? "unshare" : "share"));
      announce(t(row.shared ? "documents.shared" : "documents.shared.not"));
    } catch (error) {
      this.#showError(messageOf(error));
    }
    row.focus();
  }

  /** @param {DocumentRow} row */
  async #retry(row) {
    row.restart();
    if (row.id === null) {
      this.#queue.push(row);
      this.#next();
    } else {
      try {
        row.stored(await changeFile(row.id, "retry"));
        this.#follow(row);
      } catch (error) {
        row.failed(messageOf(error));
      }
    }
    this.#changed();
    row.focus();
  }

  /** @param {DocumentRow[]} rows Those that the device does not have are only taken out of the list. */
  async #delete(rows) {
    const stored = rows.flatMap(({ id, name }) => (id === null ? [] : [{ id, name }]));
    try {
      if (stored.length && !(await askAndDelete(stored))) return;
    } catch (error) {
      return this.#showError(messageOf(error));
    }
    const index = this.#rows.indexOf(/** @type {DocumentRow} */ (rows[0]));
    for (const row of rows) this.#drop(row);
    this.#error.hidden = true;
    this.#changed();
    const next = [this.#rows[index], this.#rows[index - 1]].find((row) => row?.element.isConnected);
    if (next) next.focus();
    else byId("upload-button").focus();
  }

  /** @param {string} name @param {string} collection */
  #named(name, collection) {
    return this.#rows.filter((row) => row.name === name && row.collection === collection);
  }

  /** @param {DocumentRow} row */
  #drop(row) {
    row.controller.abort();
    this.#rows = this.#rows.filter((other) => other !== row);
    this.#queue = this.#queue.filter((other) => other !== row);
    row.element.remove();
  }

  /** @param {string} message */
  #showError(message) {
    this.#error.textContent = message;
    this.#error.hidden = false;
  }

  /** Draws the list, and tells who cares what can be searched. */
  #changed() {
    this.#drawProjects();
    this.#draw();
    this.onChange({
      files: this.#rows.filter((row) => row.is("processed")).map(({ id, name, bytes, collection }) => ({ id: id ?? "", filename: name, bytes, collection, status: "processed", created_at: 0 })),
      known: new Set(this.#rows.flatMap(({ id }) => id ?? [])),
      waiting: this.#rows.filter((row) => row.is("sending") || row.is("uploaded")).length,
    });
  }

  /** By project; what could not be read comes first. */
  #draw() {
    const focused = document.activeElement;
    const rows = this.#filters.of(this.#rows);
    const names = [...new Set(rows.map(({ collection }) => collection))].sort();
    const groups = /** @type {[string, DocumentRow[]][]} */ ([
      [t("documents.failed"), rows.filter((row) => row.is("error"))],
      ...names.map((name) => [
        name || t(names.length > 1 ? "documents.uncollected" : "documents.here"),
        rows.filter((row) => row.collection === name && !row.is("error")),
      ]),
    ]);
    const shown = this.#list.querySelectorAll(".document").length;
    this.#list.replaceChildren(this.#end);
    this.#coming = groups.flatMap(([label, found]) => {
      const list = el("ul");
      const section = el("section", { "aria-label": label }, el("h3", { class: "group" }, label, el("span", { class: "number" }, String(found.length))), list);
      return found.map(({ element }) => ({ section, list, element }));
    });
    this.#grow(Math.max(shown, MORE));
    this.#selection.draw(rows);
    if (!rows.length) this.#list.append(el("p", { class: "empty" }, t(this.#rows.length ? "documents.none" : "documents.empty")));
    if (focused instanceof HTMLElement && focused !== document.activeElement && focused.isConnected) focused.focus();
  }

  /** @param {number} count Rows. */
  #grow(count) {
    for (const { section, list, element } of this.#coming.splice(0, count)) {
      if (!section.isConnected) this.#end.before(section);
      list.append(element);
    }
    // The end may be in sight still, which is told anew.
    this.#near.disconnect();
    if (this.#coming.length) this.#near.observe(this.#end);
  }
}
