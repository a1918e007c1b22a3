/** Selecting several documents in the list, and deleting them together. */

import { button, redraw } from "../core/controls.js";
import { el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";

/** @typedef {import("./document-row.js").DocumentRow} DocumentRow */

export class Selection {
  #on = false;
  /** @type {DocumentRow[]} */
  #rows = [];
  element = el("div", { class: "selection", role: "group", "aria-label": t("select") });

  /** @param {(rows: DocumentRow[]) => void} onDelete */
  constructor(onDelete) {
    this.onDelete = onDelete;
  }

  /** The rows in the list have changed, or one was checked. @param {DocumentRow[]} [rows] */
  draw(rows = this.#rows) {
    this.#rows = rows;
    if (rows.length < 2) this.#on = false;
    this.element.hidden = rows.length < 2;
    for (const { check } of rows) {
      check.hidden = !this.#on;
      check.checked &&= this.#on;
      check.onchange = () => this.draw();
    }
    const chosen = rows.filter(({ check }) => check.checked);
    if (!this.#on) {
      this.element.replaceChildren(button(t("select"), "select", () => this.#turn(true)));
      return;
    }
    const remove = button(t("delete"), "select-delete", () => this.onDelete(chosen));
    remove.prepend(icon("icon-trash"));
    remove.disabled = !chosen.length;
    redraw(
      this.element,
      el("span", { class: "number", role: "status" }, t("select.count", { count: chosen.length })),
      button(t("select.all"), "select-all", () => {
        for (const { check } of rows) check.checked = chosen.length < rows.length;
        this.draw();
      }),
      remove,
      button(t("cancel"), "select-cancel", () => this.#turn(false)),
    );
  }

  /** @param {boolean} on */
  #turn(on) {
    this.#on = on;
    this.draw();
    this.element.querySelector("button")?.focus();
  }
}
