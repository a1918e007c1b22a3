/** What the person has chosen, kept in this browser, and the dialog that changes it. */

import { signOut } from "./api.js";
import { byId, el } from "./dom.js";
import { Models } from "./models.js";

const KEY = "dragon.settings";

/** @type {{theme: string, mode: string, top_k: string, temperature: string, seed: string, max_tokens: string, cloud: string, shading: boolean, keys: boolean}} */
const DEFAULTS = { theme: "auto", mode: "", top_k: "", temperature: "", seed: "", max_tokens: "", cloud: "", shading: false, keys: true };

const CLOUD = {
  when_needed: "Where your documents do not answer",
  always: "Always",
  never: "Never",
};

const MODES = {
  oneway: ["One way", "The cloud writes ahead, this device decides and sends back only words that differ. The default."],
  coupled: ["Together, without waiting", "Both sides write ahead and agree on every word: the fastest, for a cloud you trust."],
  speculative: ["Speculative", "One side decides for both, as in the paper. Temperature 0 or 1 only."],
  tokenwise: ["Word by word", "A round trip for every word: slow, the same text as “together”."],
  exchange: ["Exchange", "Both sides wait for each other at every word: slow, the same text."],
  sequencewise: ["Whole answers", "Each side writes one alone; the likelier is taken."],
  local: ["This device alone", "The cloud takes no part."],
  context: ["One prompt, this device alone", "All documents before the question, in one prompt."],
};

export class Settings {
  values = { ...DEFAULTS, ...stored() };
  #dialog = /** @type {HTMLDialogElement} */ (byId("settings"));
  #form = /** @type {HTMLFormElement} */ (byId("settings-form"));
  #models = new Models();
  /** @type {any} */
  #status = null;

  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    byId("open-settings").addEventListener("click", () => this.open());
    this.#form.addEventListener("input", () => this.#read());
    this.#form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** @param {"models"} [section] What is looked for in it. */
  async open(section) {
    this.#draw();
    this.#dialog.showModal();
    await this.#models.load(this.#status?.quotes);
    if (section) byId(section).scrollIntoView();
  }

  /** @param {any} status The device's `/api/status`. */
  setStatus(status) {
    this.#status = status;
  }

  /** What goes with a question; what is left out takes the device's default. */
  get params() {
    const { mode, top_k, temperature, seed, max_tokens, cloud } = this.values;
    return {
      ...(cloud && { cloud }),
      ...(mode && { mode }),
      ...number("top_k", top_k),
      ...number("temperature", temperature),
      ...number("seed", seed),
      ...number("max_tokens", max_tokens),
    };
  }

  /** What of a question and its answer leaves the device, in a sentence. */
  get leaves() {
    const { mode, cloud } = { ...this.#status?.defaults, ...this.params };
    if (cloud === "never" || mode === "local" || mode === "context") return "The cloud takes no part.";
    const words = mode === "oneway" ? "some words of the answer" : "next-word probabilities, which can quote a passage";
    const sent = `he cloud gets the question and ${words}, never your documents.`;
    return cloud === "always" ? `T${sent}` : `Nothing leaves where your documents answer. Elsewhere t${sent}`;
  }

  /** @param {Partial<typeof DEFAULTS>} change */
  set(change) {
    this.values = { ...this.values, ...change };
    localStorage.setItem(KEY, JSON.stringify(this.values));
    document.documentElement.dataset.theme = this.values.theme;
    this.onChange();
  }

  #read() {
    const data = new FormData(this.#form);
    const text = (/** @type {string} */ name) => String(data.get(name) ?? "").trim();
    for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (this.#form.querySelectorAll("input[type=number]"))) {
      if (!field.checkValidity()) return field.reportValidity();
    }
    this.set({
      theme: text("theme"),
      mode: text("mode"),
      top_k: text("top_k"),
      temperature: text("temperature"),
      seed: text("seed"),
      max_tokens: text("max_tokens"),
      cloud: text("cloud"),
      keys: data.has("keys"),
    });
    this.#explain();
  }

  #draw() {
    const defaults = this.#status?.defaults ?? {};
    const { values } = this;
    const usual = defaults.mode && MODES[/** @type {keyof typeof MODES} */ (defaults.mode)];
    const mode = el("select", { name: "mode", id: "mode", "data-testid": "mode" }, el("option", { value: "" }, usual ? `${usual[0]} (default)` : "Default"));
    for (const [value, [label]] of Object.entries(MODES)) {
      if (value !== defaults.mode) mode.append(el("option", { value, selected: value === values.mode }, label));
    }
    const cloud = el("select", { name: "cloud", "data-testid": "cloud" });
    for (const [value, label] of Object.entries(CLOUD)) {
      const usual = value === defaults.cloud;
      cloud.append(el("option", { value: usual ? "" : value, selected: value === values.cloud || (usual && !values.cloud) }, usual ? `${label} (default)` : label));
    }
    const facts = el("dl", { class: "facts", "data-testid": "model-facts" });
    const status = this.#status;
    for (const [term, value] of status
      ? [["Context", `${status.context_length.toLocaleString("en")} tokens`], ["Vocabulary", `${status.vocabulary.toLocaleString("en")} tokens`], ["Cloud", status.peer.state === "connected" ? "connected" : status.peer.detail || status.peer.state]]
      : []) {
      facts.append(el("dt", {}, term), el("dd", {}, value));
    }
    const leaving = el("button", { class: "button", type: "button", "data-testid": "sign-out" }, "Sign out of this browser");
    leaving.addEventListener("click", () => void leave());
    this.#form.replaceChildren(
      el("fieldset", {}, el("legend", {}, "Look"), el("div", { class: "segments" }, ...["auto", "light", "dark"].map((theme) =>
        el("label", {}, el("input", { type: "radio", name: "theme", value: theme, checked: theme === values.theme }), el("span", {}, { auto: "System", light: "Light", dark: "Dark" }[theme] ?? "")),
      ))),
      el("fieldset", {}, el("legend", {}, "Answers"),
        el("label", { class: "field" }, el("span", {}, "When the cloud is asked"), cloud),
        el("label", { class: "field" }, el("span", {}, "How the two sides write"), mode),
        el("p", { class: "hint", id: "mode-hint" }),
        el("div", { class: "pairs" },
          field("top_k", "Documents a side", { min: 0, max: 32, step: 1, placeholder: defaults.top_k }, values.top_k),
          field("temperature", "Temperature", { min: 0, max: 2, step: "any", placeholder: defaults.temperature }, values.temperature),
          field("seed", "Seed", { min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, placeholder: "new each time" }, values.seed),
          field("max_tokens", "Longest answer, in tokens", { min: 1, max: 100000, step: 1, placeholder: 512 }, values.max_tokens),
        )),
      el("fieldset", {}, el("legend", {}, "Keyboard"),
        el("label", { class: "check" }, el("input", { type: "checkbox", name: "keys", checked: values.keys }), "Single letters are shortcuts outside of text fields")),
      facts,
      this.#models.element,
      leaving,
    );
    this.#explain();
  }

  #explain() {
    const chosen = /** @type {keyof typeof MODES} */ (this.values.mode || this.#status?.defaults?.mode || "oneway");
    byId("mode-hint").textContent = MODES[chosen]?.[1] ?? "";
  }
}

async function leave() {
  await signOut();
  location.reload();
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}");
  } catch {
    return {};
  }
}

/** @param {string} name @param {string} label @param {Record<string, any>} attributes @param {string} value */
function field(name, label, attributes, value) {
  return el("label", { class: "field" }, el("span", {}, label), el("input", { type: "number", name, id: `setting-${name}`, value, ...attributes }));
}

/** @param {string} name @param {string} value */
function number(name, value) {
  return value === "" ? {} : { [name]: Number(value) };
}
