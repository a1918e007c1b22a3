/** What the person has chosen, kept in this browser, and the dialog that changes it. */

import { signOut } from "./api.js";
import { pressable } from "./controls.js";
import { byId, el, icon } from "./dom.js";
import { keep, kept } from "./kept.js";
import { Models } from "./models.js";
import { localized, number, t } from "./strings.js";

const KEY = "dragon.settings";

/** @type {{theme: string, mode: string, top_k: string, temperature: string, seed: string, max_tokens: string, cloud: string, keys: boolean}} */
const DEFAULTS = { theme: "auto", mode: "", top_k: "", temperature: "", seed: "", max_tokens: "", cloud: "", keys: true };

const NUMBERS = /** @type {const} */ (["top_k", "temperature", "seed", "max_tokens"]);
/** What is folded away, unless something of it is set. */
const ADVANCED = /** @type {const} */ (["mode", ...NUMBERS]);
const CLOUD = ["when_needed", "always", "never"];
/** Others are for research, and for the API only. */
const MODES = ["oneway", "coupled", "local"];

export class Settings {
  values = { ...DEFAULTS, ...kept(KEY, {}) };
  #dialog = /** @type {HTMLDialogElement} */ (byId("settings"));
  #form = /** @type {HTMLFormElement} */ (byId("settings-form"));
  models;
  /** @type {any} */
  #status = null;

  /**
   * @param {() => void} onChange
   * @param {(said: string) => void} onUpcoming Called with what there is to say of the model that was chosen; empty: nothing.
   */
  constructor(onChange, onUpcoming) {
    this.onChange = onChange;
    this.models = new Models(onUpcoming);
    this.#form.addEventListener("input", () => this.#read());
    this.#form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** @param {"models" | "offers"} [section] What is looked for in it. */
  async open(section) {
    this.#draw();
    this.#dialog.showModal();
    await this.models.load();
    if (!section) return;
    const found = byId(section);
    if (found instanceof HTMLDetailsElement) found.open = true;
    found.scrollIntoView();
  }

  /** @param {any} status The device's `/api/status`. */
  setStatus(status) {
    const first = !this.#status;
    this.#status = status;
    if (first && this.#dialog.open) this.#draw(); // what it shows as usual was not known
  }

  /** Whether the model that answers can only quote. */
  get quotes() {
    return this.#status?.quotes ?? false;
  }

  /** What goes with a question; what is left out takes the device's default. */
  get params() {
    const { mode, cloud } = this.values;
    const numbers = NUMBERS.filter((name) => this.values[name]).map((name) => [name, Number(this.values[name])]);
    return { ...(cloud && { cloud }), ...(mode && { mode }), ...Object.fromEntries(numbers) };
  }

  get #chosen() {
    return { ...this.#status?.defaults, ...this.params };
  }

  /** When the cloud takes part: the rung of the privacy ladder. @returns {"never" | "when_needed" | "always"} */
  get rung() {
    return this.joins ? this.#chosen.cloud ?? "when_needed" : "never";
  }

  /** Whether the cloud takes part in the way of writing that is chosen. */
  get joins() {
    const { mode } = this.#chosen;
    return mode !== "local" && mode !== "context";
  }

  /** What of an answer the cloud gets that takes part in it. @param {boolean} hasDocuments Whether there are documents. */
  what(hasDocuments) {
    return t(this.#chosen.mode !== "oneway" ? "leaves.probabilities" : hasDocuments ? "leaves.words" : "leaves.words.only");
  }

  /** What of a question and its answer leaves the device, in a sentence. */
  get leaves() {
    return t(`leaves.${this.rung}`, { what: this.what(true) });
  }

  /** @param {Partial<typeof DEFAULTS>} change */
  set(change) {
    this.values = { ...this.values, ...change };
    keep(KEY, this.values);
    document.documentElement.dataset.theme = this.values.theme;
    this.onChange();
  }

  #read() {
    const data = new FormData(this.#form);
    for (const field of /** @type {NodeListOf<HTMLInputElement>} */ (this.#form.querySelectorAll("input[type=number]"))) {
      if (!field.checkValidity()) return field.reportValidity();
    }
    const texts = ["theme", "cloud", ...ADVANCED].map((name) => [name, String(data.get(name) ?? "").trim()]);
    this.set({ ...Object.fromEntries(texts), keys: data.has("keys") });
    this.#explain();
  }

  #draw() {
    const defaults = this.#status?.defaults ?? {};
    const { values } = this;
    const usual = MODES.includes(defaults.mode) ? t("settings.default", { label: t(`settings.mode.${defaults.mode}`) }) : t("settings.default.only");
    const mode = el("select", { name: "mode", id: "mode", "data-testid": "mode" }, el("option", { value: "" }, usual));
    for (const value of MODES) {
      if (value !== defaults.mode) mode.append(el("option", { value, selected: value === values.mode }, t(`settings.mode.${value}`)));
    }
    // One that was set before, or by hand, is not lost.
    if (values.mode && !MODES.includes(values.mode)) mode.append(el("option", { value: values.mode, selected: true }, values.mode));
    const cloud = el("select", { name: "cloud", "data-testid": "cloud" });
    for (const value of CLOUD) {
      const usual = value === defaults.cloud;
      const label = t(`settings.cloud.${value}`);
      cloud.append(el("option", { value: usual ? "" : value, selected: value === values.cloud || (usual && !values.cloud) }, usual ? t("settings.default", { label }) : label));
    }
    const facts = el("dl", { class: "facts", "data-testid": "model-facts" });
    const status = this.#status;
    for (const [term, value] of status
      ? [[t("settings.context"), t("tokens", { count: status.context_length })], [t("settings.vocabulary"), t("tokens", { count: status.vocabulary })], [t("link.cloud"), status.peer.state === "connected" ? t("link.connected") : localized(status.peer, "detail") || t(`link.${status.peer.state}`)]]
      : []) {
      facts.append(el("dt", {}, term), el("dd", {}, value));
    }
    const leaving = pressable({ class: "button", "data-testid": "sign-out", hidden: !status?.signs_out }, leave, t("settings.sign_out"));
    this.#form.replaceChildren(
      el("fieldset", {}, el("legend", {}, t("settings.theme")), el("div", { class: "segments" }, ...["auto", "light", "dark"].map((theme) =>
        el("label", {}, el("input", { type: "radio", name: "theme", value: theme, checked: theme === values.theme }), el("span", {}, t(`settings.theme.${theme}`))),
      ))),
      this.models.element,
      el("fieldset", {}, el("legend", {}, t("settings.answers")),
        el("label", { class: "field" }, el("span", {}, t("settings.cloud")), cloud),
        el("p", { class: "hint", id: "cloud-hint" })),
      el("fieldset", { class: "of-keys" }, el("legend", {}, t("sidebar.keyboard")),
        el("label", { class: "check" }, el("input", { type: "checkbox", name: "keys", checked: values.keys }), t("settings.keys"))),
      el("details", { class: "details advanced", "data-testid": "advanced", open: ADVANCED.some((name) => values[name]) },
        el("summary", {}, icon("icon-chevron", "icon chevron"), t("settings.advanced")),
        el("label", { class: "field" }, el("span", {}, t("settings.mode")), mode),
        el("p", { class: "hint", id: "mode-hint" }),
        el("div", { class: "pairs" },
          field("top_k", { min: 0, max: 32, step: 1, placeholder: defaults.top_k }, values.top_k),
          field("temperature", { min: 0, max: 2, step: "any", placeholder: number(defaults.temperature ?? 0) }, values.temperature),
          field("seed", { min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, placeholder: t("settings.seed.new") }, values.seed),
          field("max_tokens", { min: 1, max: 100000, step: 1, placeholder: 512 }, values.max_tokens),
        ),
        facts),
      leaving,
    );
    this.#explain();
  }

  #explain() {
    byId("cloud-hint").textContent = this.rung === "never" ? this.leaves : `${this.leaves} ${t("settings.cloud.private")}`;
    const { mode = "oneway" } = this.#chosen;
    byId("mode-hint").textContent = MODES.includes(mode) ? t(`settings.mode.${mode}.text`) : "";
  }
}

async function leave() {
  await signOut();
  location.reload();
}


/** @param {string} name @param {Record<string, any>} attributes @param {string} value */
function field(name, attributes, value) {
  return el("label", { class: "field" }, el("span", {}, t(`settings.${name}`)), el("input", { type: "number", name, id: `setting-${name}`, value, ...attributes }));
}
