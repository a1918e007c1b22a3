/** Questions to begin with and one's own, listed while the question starts with a slash. */

import { place, pressable, tool } from "../core/controls.js";
import { byId, el, icon } from "../core/dom.js";
import { keep, kept } from "../core/kept.js";
import { t } from "../core/strings.js";

const OWN = "dragon.prompts";

export class Prompts {
  #list = byId("prompts");

  /** @param {HTMLTextAreaElement} input @param {(text: string) => void} onChoose */
  constructor(input, onChoose) {
    this.input = input;
    this.onChoose = onChoose;
    input.addEventListener("input", () => this.#draw());
    for (const part of [input, this.#list]) {
      part.addEventListener("keydown", (event) => this.#pressed(event));
      part.addEventListener("focusout", ({ relatedTarget }) => {
        if (relatedTarget !== input && !this.#list.contains(/** @type {Node | null} */ (relatedTarget))) this.#list.togglePopover(false);
      });
    }
  }

  /** What is looked for; null: nothing, and no list is shown. */
  get #wanted() {
    return this.input.value.startsWith("/") ? this.input.value.slice(1).trim() : null;
  }

  get #buttons() {
    return /** @type {HTMLButtonElement[]} */ ([...this.#list.querySelectorAll("button")]);
  }

  #draw() {
    const wanted = this.#wanted;
    if (wanted === null) return this.#list.togglePopover(false);
    const fits = (/** @type {string} */ text) => text.toLocaleLowerCase().includes(wanted.toLocaleLowerCase());
    const own = written();
    const rows = [
      ...own.filter(fits).map((text) => el("div", { class: "prompt" }, this.#item(text), this.#remover(text))),
      ...t("prompts.first").split("\n").filter(fits).map((text) => this.#item(text)),
    ];
    if (wanted && !own.includes(wanted)) rows.push(this.#keeper(wanted));
    this.#list.replaceChildren(el("p", { class: "menu-title" }, t("prompts")), ...rows);
    this.#list.togglePopover(true);
    place(this.#list, this.input);
  }

  /** @param {string} text */
  #item(text) {
    return pressable({ class: "menu-item", "data-testid": "prompt-item" }, () => this.#choose(text), text);
  }

  /** @param {string} text */
  #keeper(text) {
    const add = () => {
      keep(OWN, [text, ...written()]);
      this.#choose(text);
    };
    return pressable({ class: "menu-item", "data-testid": "keep-prompt" }, add, icon("icon-plus"), t("prompts.keep", { text }));
  }

  /** @param {string} text */
  #remover(text) {
    return tool("icon-trash", t("prompts.remove", { text }), "remove-prompt", () => {
      keep(OWN, written().filter((other) => other !== text));
      this.input.focus();
      this.#draw();
    });
  }

  /** @param {string} text */
  #choose(text) {
    this.onChoose(text);
    this.#list.togglePopover(false);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    if (!this.#list.matches(":popover-open") || event.isComposing) return;
    const buttons = this.#buttons;
    const at = buttons.indexOf(/** @type {any} */ (document.activeElement));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const next = at + step;
      (next < 0 ? this.input : buttons[next % buttons.length])?.focus();
    } else if (event.key === "Escape") {
      this.#list.hidePopover();
      this.input.focus();
    } else if (event.key === "Enter" && at < 0) {
      // What fits no prompt is a question that begins with a slash.
      if (buttons[0]?.dataset.testid !== "prompt-item") return this.#list.hidePopover();
      buttons[0].click();
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

/** @returns {string[]} */
const written = () => kept(OWN, []);
