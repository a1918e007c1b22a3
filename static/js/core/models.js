/** The settings' section on models: which one answers, which others this machine has, trying and choosing one. */

import { announce, el, formatBytes } from "./dom.js";
import { localized, number, t } from "./strings.js";
import { chooseModel, listModels, messageOf, tryModel } from "./api.js";

/** @typedef {import("./types.js").Model} Model */

export class Models {
  #now = el("p", { class: "model-now", "data-testid": "model-now" });
  #list = el("ul", { class: "models", "data-testid": "models" });
  #notice = el("p", { class: "notice", role: "alert", hidden: true });
  /** The settings' fieldset. */
  element = el("fieldset", { id: "models" }, el("legend", {}, t("model")), this.#now, this.#notice, this.#list);
  #quotes = false;
  /** The trial under way. @type {AbortController | null} */
  #trying = null;

  /** Looks again for what there is; the old list stays until then. @param {boolean} quotes Whether the demo model answers. */
  async load(quotes = this.#quotes) {
    this.#quotes = quotes;
    if (!this.#list.childElementCount) this.#list.replaceChildren(el("li", { class: "hint" }, t("model.looking")));
    try {
      const { data, current, next } = await listModels();
      this.#tell(current, next);
      const rows = data.map((model) => this.#row(model, current, next));
      if (data.length < 2) rows.push(el("li", { class: "hint" }, t("model.none")));
      if (!this.#trying) this.#list.replaceChildren(...rows);
      else for (const row of rows) this.#renew(row);
    } catch (error) {
      this.#list.replaceChildren();
      this.#fail(messageOf(error));
    }
  }

  /** @param {string} current @param {string} next */
  #tell(current, next) {
    this.#now.replaceChildren(t(this.#quotes ? "model.now.demo" : "model.now", { name: current }));
    if (next !== current) this.#now.append(" ", el("strong", {}, t("model.next", { name: next })));
  }

  /** @param {Model} model @param {string} current @param {string} next */
  #row(model, current, next) {
    const { name, kind, size, memory, context } = model;
    const refusal = localized(model, "refusal");
    const note = refusal || localized(model, "hint");
    const facts = [
      t(`model.${kind}`, { where: localized(model, "where") }),
      size && formatBytes(size),
      memory && t("model.memory", { size: formatBytes(memory) }),
      context && t("model.context", { count: context }),
    ];
    const result = el("div", { class: "trial", role: "status" });
    const actions = el("div", { class: "model-actions" });
    const row = el("li", { class: "model", "data-testid": "model", "data-name": name },
      el("p", { class: "model-name" }, name),
      el("p", { class: "hint" }, facts.filter(Boolean).join(" · ")),
      ...(note ? [el("p", { class: "hint" }, note)] : []),
      actions, result);
    if (refusal) return row;
    const trying = el("button", { class: "button small", type: "button", "data-testid": "try-model" }, t("model.try"));
    trying.addEventListener("click", () => this.#try(name, trying, result));
    actions.append(trying);
    if (name === next) {
      actions.append(el("span", { class: "hint choice" }, t(name === current ? "model.using" : "model.upcoming")));
    } else {
      const choosing = el("button", { class: "button small choice", type: "button", "data-testid": "use-model" }, t("model.use"));
      choosing.addEventListener("click", () => this.#choose(name));
      actions.append(choosing);
    }
    return row;
  }

  /** Shows what is chosen in the row that has the same model; a trial in it goes on. @param {HTMLElement} row */
  #renew(row) {
    const choice = row.querySelector(".choice");
    const known = [...this.#list.children].find((each) => /** @type {HTMLElement} */ (each).dataset.name === row.dataset.name);
    if (choice) known?.querySelector(".choice")?.replaceWith(choice);
  }

  /** Loads it beside the one that answers; a second press ends that. @param {string} name @param {HTMLElement} button @param {HTMLElement} result */
  async #try(name, button, result) {
    if (this.#trying) return this.#trying.abort();
    const controller = (this.#trying = new AbortController());
    button.textContent = t("cancel");
    result.replaceChildren(el("p", { class: "hint" }, t("model.trying")));
    result.scrollIntoView({ block: "nearest" });
    try {
      const report = await tryModel(name, controller.signal);
      const { memory } = report;
      const figures = { pace: number(report.tokens_per_s, 1), size: formatBytes(memory ?? 0), cloud: localized(report, "peer") };
      result.replaceChildren(
        el("p", { class: "hint" }, t("model.asked", { question: report.question })),
        el("blockquote", { "data-testid": "trial-answer" }, report.answer || t("model.silent")),
        el("p", { class: "hint", "data-testid": "trial-figures" }, t(memory === null ? "model.pace" : "model.pace.memory", figures)));
    } catch (error) {
      result.replaceChildren(...(controller.signal.aborted ? [] : [el("p", { class: "notice", "data-testid": "trial-refusal" }, messageOf(error))]));
    }
    result.scrollIntoView({ block: "nearest" });
    button.textContent = t("model.try");
    this.#trying = null;
  }

  /** @param {string} name */
  async #choose(name) {
    try {
      await chooseModel(name);
      this.#notice.hidden = true;
      announce(t("model.chosen", { name }));
      await this.load();
    } catch (error) {
      this.#fail(messageOf(error));
    }
  }

  /** @param {string} message */
  #fail(message) {
    this.#notice.textContent = message;
    this.#notice.hidden = false;
  }
}
