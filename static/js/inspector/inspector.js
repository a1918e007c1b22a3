/** The panel on the right, of the documents or of an answer, and the sidebar; on narrow screens both slide over the page. */

import { byId } from "../core/dom.js";

/** @typedef {"documents" | "who" | "ledger" | "live"} PanelName */

const narrow = matchMedia("(max-width: 70rem)");
const phone = matchMedia("(max-width: 52rem)");

export class Inspector {
  /** @type {PanelName | null} */
  open = null;
  #root = byId("inspector");
  #scrim = byId("scrim");
  #sidebar = byId("sidebar");
  #sidebarOpen = false;
  #tabs = /** @type {HTMLElement[]} */ ([...this.#root.querySelectorAll("[role=tab]")]);
  #openers = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".tabs-open [data-panel]")]);
  /** @type {HTMLElement | null} */
  #from = null;

  /** @param {(name: PanelName | null) => void} onShow Null: it was closed. */
  constructor(onShow) {
    this.onShow = onShow;
    for (const opener of this.#openers) {
      opener.addEventListener("click", () => this.toggle(/** @type {PanelName} */ (opener.dataset.panel)));
    }
    for (const tab of this.#tabs) {
      tab.addEventListener("click", () => this.show(/** @type {PanelName} */ (tab.dataset.panel)));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = this.#tabs[(this.#tabs.indexOf(tab) + step + this.#tabs.length) % this.#tabs.length];
        next?.click();
        next?.focus();
      });
    }
    byId("inspector-close").addEventListener("click", () => this.close());
    byId("sidebar-open").addEventListener("click", () => this.#showSidebar(true));
    byId("sidebar-close").addEventListener("click", () => this.#showSidebar(false));
    this.#scrim.addEventListener("click", () => this.dismiss());
    narrow.addEventListener("change", () => this.#draw());
    phone.addEventListener("change", () => this.#draw());
    this.#draw();
  }

  /** @param {PanelName} name */
  show(name) {
    if (this.open === null) this.#from = /** @type {HTMLElement} */ (document.activeElement);
    const covering = this.open === null && narrow.matches;
    this.open = name;
    this.#draw();
    if (covering) byId("inspector-close").focus();
    byId(`panel-${name}`).scrollTop = 0;
    this.onShow(name);
  }

  close() {
    this.open = null;
    this.#draw();
    this.onShow(null);
    this.#from?.focus();
  }

  /** @param {PanelName} name */
  toggle(name) {
    if (this.open === name) this.close();
    else this.show(name);
  }

  /** Closes what covers the page. @returns {boolean} Whether something did. */
  dismiss() {
    if (this.#sidebarOpen) this.#showSidebar(false);
    else if (this.open && narrow.matches) this.close();
    else return false;
    return true;
  }

  /** The sidebar need not cover the conversation that was chosen in it. */
  closeSidebar() {
    if (this.#sidebarOpen) this.#showSidebar(false);
  }

  openSidebar() {
    if (phone.matches) this.#showSidebar(true);
  }

  /** @param {boolean} open */
  #showSidebar(open) {
    this.#sidebarOpen = open;
    this.#draw();
    if (phone.matches) byId(open ? "sidebar-close" : "sidebar-open").focus();
  }

  #draw() {
    const sidebar = this.#sidebarOpen && phone.matches;
    const covered = sidebar || (this.open !== null && narrow.matches);
    this.#root.hidden = this.open === null;
    this.#sidebar.classList.toggle("is-open", sidebar);
    this.#sidebar.inert = phone.matches && !sidebar;
    this.#root.inert = sidebar;
    this.#scrim.hidden = !covered;
    byId("main").inert = covered;
    byId("sidebar-open").setAttribute("aria-expanded", String(sidebar));
    for (const opener of this.#openers) opener.setAttribute("aria-expanded", String(opener.dataset.panel === this.open));
    const documents = this.open === "documents";
    byId("panel-documents").hidden = !documents;
    byId("inspector-title").hidden = !documents;
    byId("tabs").hidden = documents;
    for (const tab of this.#tabs) {
      const chosen = tab.dataset.panel === this.open;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      byId(`panel-${tab.dataset.panel}`).hidden = !chosen;
    }
  }
}
