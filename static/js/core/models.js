/** The settings' section on models: which one answers, which others this machine has, trying and choosing one. */

import { announce, el, formatBytes } from "./dom.js";
import { chooseModel, listModels, messageOf, tryModel } from "./api.js";

/** @typedef {import("./types.js").Model} Model */

const KINDS = {
  demo: "Quotes sentences",
  file: "GGUF file",
  directory: "PyTorch model",
  server: "Model server",
};

export class Models {
  #now = el("p", { class: "model-now", "data-testid": "model-now" });
  #list = el("ul", { class: "models", "data-testid": "models" });
  #notice = el("p", { class: "notice", role: "alert", hidden: true });
  /** The settings' fieldset. */
  element = el("fieldset", { id: "models" }, el("legend", {}, "Model"), this.#now, this.#notice, this.#list);
  #quotes = false;
  /** The trial under way. @type {AbortController | null} */
  #trying = null;

  /** Looks again for what there is; the old list stays until then. @param {boolean} quotes Whether the demo model answers. */
  async load(quotes = this.#quotes) {
    this.#quotes = quotes;
    if (!this.#list.childElementCount) this.#list.replaceChildren(el("li", { class: "hint" }, "Looking for models on this device"));
    try {
      const { data, current, next } = await listModels();
      this.#tell(current, next);
      const rows = data.map((model) => this.#row(model, current, next));
      if (data.length < 2) rows.push(el("li", { class: "hint" }, "No other model was found. Download one with LM Studio or Ollama, or put a .gguf file into DRAGON’s data folder, and open these settings again."));
      if (!this.#trying) this.#list.replaceChildren(...rows);
    } catch (error) {
      this.#list.replaceChildren();
      this.#fail(messageOf(error));
    }
  }

  /** @param {string} current @param {string} next */
  #tell(current, next) {
    const now = this.#quotes ? `${current} answers now. It is the built-in demo model: it quotes sentences.` : `${current} answers now.`;
    this.#now.replaceChildren(now);
    if (next !== current) this.#now.append(" ", el("strong", {}, `${next} answers after a restart: end DRAGON with Ctrl-C in its terminal, and start it again.`));
  }

  /** @param {Model} model @param {string} current @param {string} next */
  #row(model, current, next) {
    const { name, kind, where, size, memory, context, refusal, hint } = model;
    const facts = [
      kind === "demo" ? "Built-in demo model" : `${KINDS[kind]}, ${where}`,
      size && formatBytes(size),
      memory && `about ${formatBytes(memory)} of memory`,
      context && `${context.toLocaleString("en")} tokens of context`,
    ];
    const result = el("div", { class: "trial", role: "status" });
    const actions = el("div", { class: "model-actions" });
    const row = el("li", { class: "model", "data-testid": "model", "data-name": name },
      el("p", { class: "model-name" }, name),
      el("p", { class: "hint" }, facts.filter(Boolean).join(" · ")),
      ...(refusal || hint ? [el("p", { class: "hint" }, refusal || hint)] : []),
      actions, result);
    if (refusal) return row;
    const trying = el("button", { class: "button small", type: "button", "data-testid": "try-model" }, "Try it");
    trying.addEventListener("click", () => this.#try(name, trying, result));
    actions.append(trying);
    if (name === next) {
      actions.append(el("span", { class: "hint" }, name === current ? "In use" : "From the next start on"));
    } else {
      const choosing = el("button", { class: "button small", type: "button", "data-testid": "use-model" }, "Choose");
      choosing.addEventListener("click", () => this.#choose(name));
      actions.append(choosing);
    }
    return row;
  }

  /** Loads it beside the one that answers; a second press ends that. @param {string} name @param {HTMLElement} button @param {HTMLElement} result */
  async #try(name, button, result) {
    if (this.#trying) return this.#trying.abort();
    const controller = (this.#trying = new AbortController());
    button.textContent = "Cancel";
    result.replaceChildren(el("p", { class: "hint" }, "Loading it. A large model takes a minute or more."));
    try {
      const report = await tryModel(name, controller.signal);
      const memory = report.memory === null ? "" : `, ${formatBytes(report.memory)} of memory in all`;
      result.replaceChildren(
        el("blockquote", { "data-testid": "trial-answer" }, report.answer || "It wrote nothing."),
        el("p", { class: "hint", "data-testid": "trial-figures" }, `${report.tokens_per_s.toFixed(1)} tokens a second${memory}. ${report.peer}`),
        el("p", { class: "hint" }, `Vocabulary ${report.fingerprint.slice(0, 8)}`));
    } catch (error) {
      result.replaceChildren(...(controller.signal.aborted ? [] : [el("p", { class: "notice", "data-testid": "trial-refusal" }, messageOf(error))]));
    }
    button.textContent = "Try it";
    this.#trying = null;
  }

  /** @param {string} name */
  async #choose(name) {
    try {
      await chooseModel(name);
      this.#notice.hidden = true;
      announce(`${name} answers after a restart`);
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
