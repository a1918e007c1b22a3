/** Folders that the device watches: how far their files are, adding one, and no longer watching one. */

import { addFolder, listFolderFiles, listFolders, messageOf, removeFolder } from "../core/api.js";
import { confirmed } from "../core/confirm.js";
import { tool } from "../core/controls.js";
import { byId, el, icon } from "../core/dom.js";
import { localized, number, t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Folder} Folder */

/** Of files, in the order in which they are told. */
const STATES = ["indexed", "words", "waiting", "unread", "left_out"];

export class Folders {
  #list = byId("folders");
  #path = /** @type {HTMLInputElement} */ (byId("folder-path"));
  #error = byId("folder-error");
  /** As it was drawn last; what is unchanged stays as it is, with its files unfolded. */
  #drawn = "";
  /** Ids of those whose files are unfolded. @type {Set<string>} */
  #unfolded = new Set();

  /** @param {() => void} onChange Their documents are others. */
  constructor(onChange) {
    this.onChange = onChange;
    byId("folder-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#change(async () => {
        await addFolder(this.#path.value.trim());
        this.#path.value = "";
      });
    });
  }

  async load() {
    try {
      const folders = await listFolders();
      const state = JSON.stringify(folders);
      if (state === this.#drawn) return;
      const first = this.#drawn === "";
      this.#drawn = state;
      byId("folder-count").textContent = folders.length ? number(folders.length) : "";
      this.#list.replaceChildren(...folders.map((folder) => this.#row(folder)));
      if (!first) this.onChange();
    } catch (error) {
      messageOf(error); // the banner says it
    }
  }

  /** @param {Folder} folder */
  #row(folder) {
    const { id, path, short, collection } = folder;
    const files = el("ul", { class: "folder-files" });
    const unfolded = this.#unfolded.has(id);
    const fold = el("details", { open: unfolded }, el("summary", {}, icon("icon-chevron", "icon chevron"), el("span", {}, summarized(folder))), files);
    fold.addEventListener("toggle", () => {
      if (fold.open) this.#unfolded.add(id);
      else this.#unfolded.delete(id);
      if (fold.open && !files.childElementCount) this.#show(id, files);
    });
    return el("li", { class: "document", "data-testid": "folder", "data-state": folder.state },
      icon("icon-folder", "icon document-icon"),
      el("div", { class: "document-text" }, el("p", { class: "document-name", title: path }, short), el("p", { class: "document-detail" }, t("folders.project", { name: collection })), fold),
      el("div", { class: "document-tools" }, tool("icon-trash", t("folders.remove", { path: short }), "remove-folder", () => this.#remove(folder))));
  }

  /** @param {string} id @param {HTMLElement} list */
  async #show(id, list) {
    try {
      const { data, has_more } = await listFolderFiles(id);
      list.replaceChildren(
        ...data.map((file) => el("li", { "data-testid": "folder-file", "data-state": file.state }, el("span", {}, file.path), el("small", {}, localized(file, "problem") || t(`folders.file.${file.state}`)))),
        ...(has_more ? [el("li", {}, t("folders.more"))] : []),
      );
    } catch (error) {
      list.replaceChildren(el("li", {}, messageOf(error)));
    }
  }

  /** @param {Folder} folder */
  async #remove({ id, short }) {
    const chosen = await confirmed({ title: t("folders.remove.title"), text: t("folders.remove.text", { path: short }), yes: t("folders.remove.yes"), danger: true });
    if (chosen === "yes") await this.#change(() => removeFolder(id));
  }

  /** @param {() => Promise<any>} change */
  async #change(change) {
    try {
      this.#error.hidden = true;
      await change();
    } catch (error) {
      this.#error.textContent = messageOf(error);
      this.#error.hidden = false;
    }
    await this.load();
  }
}

/** How far its files are, or why it is not looked at. @param {Folder} folder */
function summarized({ state, files }) {
  if (state !== "watched") return t(`folders.state.${state}`);
  const counts = STATES.flatMap((name) => (files[name] ? [t(`folders.count.${name}`, { count: files[name] })] : []));
  return counts.join(", ") || t("folders.count.none");
}
