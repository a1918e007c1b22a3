/** A question: what was asked, and editing it into a branch of its own. */

import { branchSwitch, tool } from "../core/controls.js";
import { el, icon } from "../core/dom.js";
import { phrased, t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Message} Message */

/** Characters from which on a question may have to be scrolled, by the keyboard too. */
const LONG = 600;

export class QuestionView {
  #text;
  #bubble;
  #tools = el("div", { class: "tools", role: "group", "aria-label": t("question") });
  #note = el("p", { class: "question-note", hidden: true });
  #branches = { at: 0, of: 1 };

  /**
   * @param {Message} message
   * @param {object} actions
   * @param {(id: string, text: string) => boolean} actions.edit Whether it could be asked.
   * @param {(id: string, step: number) => void} actions.branch
   */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.#text = phrased(message.text, message.phrases);
    this.#bubble = el("p", { class: "bubble", tabindex: this.#text.length > LONG ? 0 : null }, this.#text);
    this.element = el("div", { class: "question", "data-testid": "question", "data-id": message.id }, el("h3", { class: "visually-hidden" }, t("question")), this.#bubble);
    this.element.append(this.#note, this.#tools);
    this.#drawTools();
  }

  /** @param {number} at @param {number} of */
  setBranches(at, of) {
    this.#branches = { at, of };
    this.#drawTools();
  }

  /** Says below it that it was kept on the device. @param {boolean} openly Whether another branch asks the same openly. */
  setOpenly(openly) {
    if (!this.message.private) return;
    this.#note.replaceChildren(icon("icon-private"), t(openly ? "question.private.openly" : "question.private"));
    this.#note.hidden = false;
  }

  /** Opens the question for changes; sent, it becomes another branch. */
  edit() {
    if (this.element.querySelector("textarea")) return;
    const input = el("textarea", { class: "input", "aria-label": t("question.edit.text"), "data-testid": "edit-text", rows: 3 });
    input.value = this.#text;
    const form = el(
      "form",
      { class: "edit" },
      input,
      el("div", { class: "edit-actions" },
        el("button", { class: "button small", type: "button", value: "cancel" }, t("cancel")),
        el("button", { class: "button small primary", type: "submit", "data-testid": "edit-send" }, t("question.edit.send"))),
    );
    const close = () => {
      form.replaceWith(this.#bubble);
      this.#tools.hidden = false;
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = input.value.trim();
      // While another answer is written, or without a connection, what was typed stays.
      if (!text || this.actions.edit(this.message.id, text)) close();
    });
    form.querySelector("[value=cancel]")?.addEventListener("click", close);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
        /** @type {HTMLElement | null} */ (this.#tools.querySelector("[data-testid=edit]"))?.focus();
      }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.#bubble.replaceWith(form);
    this.#tools.hidden = true;
    input.focus();
  }

  #drawTools() {
    const { id } = this.message;
    const { at, of } = this.#branches;
    this.#tools.replaceChildren(
      ...(of > 1 ? [branchSwitch(at, of, (step) => this.actions.branch(id, step))] : []),
      tool("icon-edit", t("question.edit"), "edit", () => this.edit()),
    );
  }
}
