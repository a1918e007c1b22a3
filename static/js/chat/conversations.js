/** The list of conversations: found, renamed, exported and deleted. */

import { ApiError, changeConversation, deleteConversation, exportAddress, listConversations, messageOf } from "../core/api.js";
import { confirmDelete } from "../core/confirm.js";
import { menuButton, pressable } from "../core/controls.js";
import { announce, byId, el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";
import { marked } from "./found.js";

/** @typedef {import("../core/types.js").Conversation} Conversation */

const SEARCH_MS = 150;

export class ConversationList {
  #list = byId("conversations");
  #search = /** @type {HTMLInputElement} */ (byId("search"));
  #timer = 0;
  #version = 0;
  /** Those listed so far, and whether there are more. @type {Conversation[]} */
  #found = [];
  #more = false;
  #archived = false;
  /** @type {string | null} */
  #current = null;

  /**
   * @param {object} handlers
   * @param {(id: string, search: string) => void} handlers.onOpen `search` is what it was found by.
   * @param {(conversation: Conversation) => void} handlers.onRename It was changed: renamed, pinned, archived, moved.
   * @param {(id: string) => void} handlers.onDelete
   * @param {(message: string) => void} handlers.onError
   * @param {() => {current: string, names: string[]}} handlers.projects The one whose conversations are listed, and all.
   * @param {() => void} handlers.onMoved One is of another project now.
   */
  constructor({ onOpen, onRename, onDelete, onError, projects, onMoved }) {
    this.onOpen = onOpen;
    this.projects = projects;
    this.onMoved = onMoved;
    this.onError = onError;
    this.onRename = onRename;
    this.onDelete = onDelete;
    this.#search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.load(), SEARCH_MS);
    });
  }

  focusSearch() {
    this.#search.focus();
    this.#search.select();
  }

  /** Reads the list anew, or reads on; an older reply that comes late is dropped. @param {Conversation} [last] */
  async load(last) {
    const version = ++this.#version;
    const search = this.#search.value.trim();
    try {
      const { data, has_more } = await listConversations(search, last, this.projects().current, this.#archived);
      if (version !== this.#version) return;
      this.#found = last ? [...this.#found, ...data] : data;
      this.#more = has_more;
      this.#show(search);
      if (last && data[0]) this.#focus(data[0].id);
    } catch (error) {
      if (version === this.#version) this.#list.replaceChildren(el("p", { class: "empty", role: "alert" }, messageOf(error)));
    }
  }

  /** @param {string | null} id The conversation that is open. */
  setCurrent(id) {
    this.#current = id;
    for (const row of this.#list.querySelectorAll("[data-id]")) this.#mark(/** @type {HTMLElement} */ (row));
  }

  /** @param {string} search */
  #show(search) {
    const found = this.#found;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest("[data-id]"))?.dataset.id;
    if (!found.length) {
      this.#list.replaceChildren(el("p", { class: "empty" }, search ? t("list.none", { search }) : t(this.#archived ? "list.archived.none" : "list.empty")));
    }
    /** @type {Map<string, Conversation[]>} */
    const groups = new Map();
    for (const each of found) {
      const name = search ? t("list.found") : this.#archived ? t("list.archived") : each.pinned ? t("list.pinned") : dayOf(each.updated_at);
      groups.set(name, [...(groups.get(name) ?? []), each]);
    }
    if (found.length) this.#list.replaceChildren(
      ...[...groups].map(([name, rows]) =>
        el("section", { "aria-label": name }, el("h2", { class: "group" }, name), el("ul", {}, ...rows.map((row) => this.#row(row)))),
      ),
    );
    if (this.#more) {
      this.#list.append(pressable({ class: "row-button more", "data-testid": "older" }, () => this.load(found.at(-1)), t("list.older")));
    }
    if (!search) {
      const other = () => {
        this.#archived = !this.#archived;
        this.load();
      };
      this.#list.append(pressable({ class: "row-button more", "data-testid": "archived" }, other, icon("icon-archive"), t(this.#archived ? "list.current" : "list.archived")));
    }
    if (focused) this.#focus(focused);
  }

  /** @param {string} id */
  #focus(id) {
    /** @type {HTMLElement | null} */ (this.#list.querySelector(`[data-id="${CSS.escape(id)}"] .conversation-open`))?.focus();
  }

  /** @param {Conversation} conversation */
  #row(conversation) {
    const { id, title, found } = conversation;
    const search = this.#search.value.trim();
    const open = pressable({ class: "conversation-open", title }, () => this.onOpen(id, this.#search.value.trim()), el("span", { class: "conversation-title" }, ...marked(title, search)));
    if (found) open.append(el("span", { class: "conversation-found" }, ...marked(found, search)));
    open.addEventListener("keydown", (event) => {
      if (event.key === "F2") this.#rename(conversation, row);
      if (event.key === "Delete") this.#delete(conversation);
    });
    const more = menuButton(t("list.actions", { title }), "conversation-menu", () => [
      { label: t("list.rename"), icon: "icon-edit", act: () => this.#rename(conversation, row), testid: "rename" },
      { label: t(conversation.pinned ? "list.unpin" : "list.pin"), icon: "icon-pin", act: () => this.#change(id, { pinned: !conversation.pinned }), testid: "pin" },
      { label: t(conversation.archived ? "list.restore" : "list.archive"), icon: "icon-archive", act: () => this.#change(id, { archived: !conversation.archived }), testid: "archive" },
      ...this.projects().names.map((name) => ({
        label: t(name === conversation.project ? "list.takeout" : "list.move", { name }),
        icon: "icon-folder",
        act: () => this.#move(id, name === conversation.project ? "" : name),
        testid: "move",
      })),
      { label: t("list.markdown"), icon: "icon-document", href: exportAddress(id, "markdown"), testid: "export-markdown" },
      { label: t("list.json"), icon: "icon-document", href: exportAddress(id, "json"), testid: "export-json" },
      { label: t("list.delete"), icon: "icon-trash", act: () => this.#delete(conversation), danger: true, testid: "delete-conversation" },
    ]);
    const row = el("li", { class: "conversation", "data-testid": "conversation", "data-id": id }, open, more);
    this.#mark(row);
    return row;
  }

  /** @param {HTMLElement} row */
  #mark(row) {
    const current = row.dataset.id === this.#current;
    row.classList.toggle("is-current", current);
    const open = row.querySelector(".conversation-open");
    if (current) open?.setAttribute("aria-current", "page");
    else open?.removeAttribute("aria-current");
  }

  /** Writes the new title in place: Enter keeps it, Escape leaves it. @param {Conversation} conversation @param {HTMLElement} row */
  #rename(conversation, row) {
    const input = el("input", { class: "input", "aria-label": t("list.title"), "data-testid": "title-input", maxlength: 200, value: conversation.title });
    const shown = [...row.childNodes];
    let over = false;
    const end = async (/** @type {boolean} */ keep) => {
      if (over) return;
      over = true;
      const title = input.value.trim();
      row.replaceChildren(...shown);
      /** @type {HTMLElement | null} */ (row.querySelector(".conversation-open"))?.focus();
      if (!keep || !title || title === conversation.title) return;
      try {
        this.onRename(await changeConversation(conversation.id, { title }));
      } catch (error) {
        this.onError(messageOf(error));
      }
      this.load();
    };
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" || event.key === "Escape") {
        event.preventDefault();
        end(event.key === "Enter");
      }
    });
    input.addEventListener("blur", () => end(true));
    row.replaceChildren(input);
    input.focus();
    input.select();
  }

  /** @param {string} id @param {{project?: string, pinned?: boolean, archived?: boolean}} change */
  async #change(id, change) {
    try {
      this.onRename(await changeConversation(id, change));
    } catch (error) {
      this.onError(messageOf(error));
    }
    await this.load();
    this.#focus(id);
  }

  /** @param {string} id @param {string} project Empty: none. */
  async #move(id, project) {
    await this.#change(id, { project });
    this.onMoved();
  }

  /** @param {Conversation} conversation */
  async #delete({ id, title }) {
    if (!(await confirmDelete(title, t("list.delete.text")))) return;
    try {
      await deleteConversation(id);
    } catch (error) {
      // Gone already, perhaps from another tab: that is what was asked for.
      if (!(error instanceof ApiError && error.status === 404)) return this.onError(messageOf(error));
    }
    announce(t("list.deleted"));
    this.onDelete(id);
    this.load();
  }
}

/** @param {number} seconds */
function dayOf(seconds) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const days = Math.ceil((midnight - seconds * 1000) / 86_400_000);
  if (days <= 0) return t("list.today");
  if (days === 1) return t("list.yesterday");
  return days <= 7 ? t("list.week") : t("list.earlier");
}
