/** Selecting several documents in the list, and deleting them together. */

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
    for (const { check, element } of rows) {
      // Thousands of boxes that nobody sees would slow each keystroke elsewhere.
      if (this.#on && !check.parentElement) element.prepend(check);
      if (!this.#on) {
        check.remove();
        check.checked = false;
      }
      check.onchange = () => this.draw();
    }
    const chosen = rows.filter(({ check }) => check.checked);
    if (!this.#on) {
      this.element.replaceChildren(this.#button("select", "select", () => this.#turn(true)));
      return;
    }
    const remove = this.#button("delete", "select-delete", () => {
      this.onDelete(chosen);
    });
    remove.prepend(icon("icon-trash"));
    remove.disabled = !chosen.length;
    const focused = /** @type {HTMLElement | null} */ (this.element.contains(document.activeElement) ? document.activeElement : null)?.dataset.testid;
    this.element.replaceChildren(
      el("span", { class: "number", role: "status" }, t("select.count", { count: chosen.length })),
      this.#button("select.all", "select-all", () => {
        for (const { check } of rows) check.checked = chosen.length < rows.length;
        this.draw();
      }),
      remove,
      this.#button("cancel", "select-cancel", () => this.#turn(false)),
    );
    if (focused) /** @type {HTMLElement | null} */ (this.element.querySelector(`[data-testid="${focused}"]`))?.focus();
  }

  /** @param {boolean} on */
  #turn(on) {
    this.#on = on;
    this.draw();
    this.element.querySelector("button")?.focus();
  }

  /** @param {string} label @param {string} testid @param {() => void} act */
  #button(label, testid, act) {
    const button = el("button", { class: "button small", type: "button", "data-testid": testid }, t(label));
    button.addEventListener("click", act);
    return button;
  }
}
