/** Projects in the sidebar: a collection of documents, a standing instruction, its conversations. */

import { deleteProject, listProjects, messageOf, putProject } from "../core/api.js";
import { confirmed } from "../core/confirm.js";
import { menuButton, pressable } from "../core/controls.js";
import { byId, el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Project} Project */

export class Projects {
  /** The one whose conversations are listed; empty: all are. */
  current = "";
  /** @type {Project[]} */
  all = [];
  #list = byId("projects");
  #dialog = /** @type {HTMLDialogElement} */ (byId("project"));
  #form = /** @type {HTMLFormElement} */ (byId("project-form"));
  #name = /** @type {HTMLInputElement} */ (byId("project-name"));
  #instruction = /** @type {HTMLTextAreaElement} */ (byId("project-instruction"));

  /**
   * @param {object} handlers
   * @param {() => void} handlers.onChoose
   * @param {() => void} handlers.onLoaded
   * @param {(name: string) => Promise<boolean>} handlers.onDelete Deletes its documents, if that is what is wanted.
   * @param {() => boolean} handlers.quotes Whether the model follows no instruction.
   */
  constructor({ onChoose, onLoaded, onDelete, quotes }) {
    this.onChoose = onChoose;
    this.onLoaded = onLoaded;
    this.onDelete = onDelete;
    this.quotes = quotes;
    byId("new-project").addEventListener("click", () => this.#edit());
    byId("project-cancel").addEventListener("click", () => this.#dialog.close());
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
  }

  async load() {
    try {
      this.all = await listProjects();
    } catch (error) {
      messageOf(error); // the banner says it
    }
    if (!this.all.some(({ name }) => name === this.current)) this.choose("");
    this.#draw();
    this.onLoaded();
  }

  /** @param {string} name */
  instruction(name) {
    return this.all.find((each) => each.name === name)?.instruction ?? "";
  }

  /** @param {string} name Empty: all conversations. */
  choose(name) {
    if (name === this.current) return;
    this.current = name;
    this.#draw();
    this.onChoose();
  }

  #draw() {
    const rows = this.all.map((project) => this.#row(project));
    this.#list.replaceChildren(...(rows.length ? [this.#open("", t("projects.all"), "icon-chats"), ...rows] : []));
  }

  /** @param {string} name @param {string} label @param {string} symbol */
  #open(name, label, symbol) {
    const attributes = { class: "project-open", title: label, "data-testid": "project-open", "aria-pressed": String(name === this.current) };
    return pressable(attributes, () => this.choose(name), icon(symbol), el("span", {}, label));
  }

  /** @param {Project} project */
  #row(project) {
    const { name } = project;
    const more = menuButton(t("list.actions", { title: name }), "project-menu", () => [
      { label: t("projects.edit"), icon: "icon-edit", act: () => this.#edit(project), testid: "project-edit" },
      { label: t("projects.delete"), icon: "icon-trash", act: () => this.#delete(project), danger: true, testid: "project-delete" },
    ]);
    return el("div", { class: "project", "data-testid": "project-row", "data-name": name }, this.#open(name, name, "icon-folder"), more);
  }

  /** @param {Project} [project] Left out: a new one. */
  #edit(project) {
    byId("project-title").textContent = project ? project.name : t("projects.new");
    byId("project-error").hidden = true;
    byId("project-demo").hidden = !this.quotes();
    this.#name.value = project?.name ?? "";
    this.#name.readOnly = project !== undefined;
    this.#instruction.value = project?.instruction ?? "";
    this.#dialog.showModal();
    (project ? this.#instruction : this.#name).focus();
  }

  async #save() {
    try {
      const { name } = await putProject(this.#name.value, this.#instruction.value);
      this.#dialog.close();
      await this.load();
      this.choose(name);
    } catch (error) {
      byId("project-error").textContent = messageOf(error);
      byId("project-error").hidden = false;
    }
  }

  /** @param {Project} project */
  async #delete({ name, files, conversations }) {
    const chats = t("conversations", { count: conversations });
    const sure = files > 0
      ? await this.onDelete(name)
      : (await confirmed({ title: t("documents.delete", { name }), text: t("projects.delete.text", { conversations: chats }), yes: t("delete"), danger: true })) === "yes";
    if (!sure) return;
    await deleteProject(name).catch(messageOf);
    await this.load();
  }
}
