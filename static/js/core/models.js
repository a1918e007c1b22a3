/** The settings' section on models: which one answers, which others this machine has, trying and choosing one. */

import { chooseModel, giveKey, listModels, messageOf, tryModel } from "./api.js";
import { button, openMenu, pressable } from "./controls.js";
import { announce, el, formatBytes, icon } from "./dom.js";
import { Offers } from "./offers.js";
import { learnPace, paceOf } from "./paces.js";
import { localized, number, t } from "./strings.js";

/** @typedef {import("./types.js").Model} Model */
/** @typedef {import("./types.js").Trial} Trial */

const LOOK_MS = 1000;
/** One that takes over is there again within this time. */
const AWAY_MS = 30_000;
/** Words a second; people read about four. */
const FASTER = 6, EVEN = 3, SLOWER = 1;
/** The share of a device's memory that leaves other programs room. */
const ROOMY = 0.75;

/**
 * A menu of the models that could answer.
 *
 * @param {HTMLElement} anchor
 * @param {(name: string) => void} onChoose Called with the one that is chosen; empty: one that is not here yet.
 */
export async function pickModel(anchor, onChoose) {
  const { data, current, next } = await listModels();
  const usable = data.filter(({ refusal }) => !refusal);
  openMenu(anchor, [
    ...usable.map(({ name, size }) => ({
      label: name,
      note: [size && formatBytes(size), paceOf(name)].filter(Boolean).join(" · "),
      icon: name === current ? "icon-check" : "",
      checked: name === current,
      testid: "pick-model",
      // While another is being loaded, the one that answers can be chosen again.
      act: () => name === next || onChoose(name),
    })),
    { label: t("offer"), icon: "icon-plus", testid: "more-models", act: () => onChoose("") },
  ]);
}

export class Models {
  #now = el("p", { "data-testid": "model-now" });
  #list = el("ul", { class: "models", "data-testid": "models" });
  #notice = el("p", { class: "notice", role: "alert", hidden: true });
  #offers = new Offers(() => this.load(), (name) => this.choose(name));
  /** The settings' fieldset. */
  element = el("fieldset", { id: "models" }, el("legend", {}, t("model")), this.#now, this.#notice, this.#list, this.#offers.element);
  /** The trial under way. @type {AbortController | null} */
  #trying = null;

  /** The model that is being loaded to take over; empty: none. */
  awaited = "";

  /** @param {(said: string) => void} onUpcoming Called with what there is to say of the model that was chosen; empty: nothing. */
  constructor(onUpcoming) {
    this.onUpcoming = onUpcoming;
  }

  /** Looks again for what there is; the old list stays until then. */
  async load() {
    this.#offers.load();
    if (!this.#list.childElementCount) this.#list.replaceChildren(el("li", { class: "hint" }, t("model.looking")));
    try {
      const { data, current, next, loading } = await listModels();
      const demo = data.some(({ name, kind }) => name === current && kind === "demo");
      const upcoming = next === current ? "" : t(loading ? "model.loading.text" : "model.next", { name: next, current });
      this.#now.replaceChildren(t(demo ? "model.now.demo" : "model.now", { name: current }));
      if (upcoming) this.#now.append(" ", el("strong", { role: "status" }, upcoming));
      this.onUpcoming(upcoming || this.#failure);
      if (loading) this.#follow(next);
      const rows = data.map((model) => this.#row(model, current, next));
      if (data.length < 2) {
        rows.push(el("li", { class: "hint" }, t("model.none")));
        this.#offers.element.open = true;
      }
      if (!this.#trying) this.#list.replaceChildren(...rows);
      else for (const row of rows) this.#renew(row);
    } catch (error) {
      this.#list.replaceChildren();
      this.#fail(messageOf(error));
    }
  }

  /** Says what is being loaded, where that began before this page did. */
  async resume() {
    const found = await listModels().catch(() => null);
    if (found?.loading) await this.load();
  }

  /** Looks until this model has taken over, or could not be loaded. @param {string} name */
  async #follow(name) {
    if (this.awaited) return;
    this.awaited = name;
    let seen = performance.now();
    let state = null;
    do {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      // While one takes over from the other, neither answers.
      state = await listModels().catch(() => null);
      if (state) seen = performance.now();
      if (state?.loading) this.awaited = state.next;
    } while (state ? state.loading : performance.now() - seen < AWAY_MS);
    const { awaited } = this;
    this.awaited = "";
    if (!state) return this.onUpcoming(""); // the connection's banner says it now
    if (state.current !== awaited) this.#fail(t("model.failed", { name: awaited, current: state.current }));
    await this.load();
  }

  /** @param {Model} model @param {string} current @param {string} next */
  #row(model, current, next) {
    const { name, kind, size, memory, context } = model;
    const refusal = localized(model, "refusal");
    const note = refusal || localized(model, "hint");
    const facts = [
      name === current && name !== next && t("model.using"),
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
    if (model.wants_key) row.append(this.#keyField(name));
    if (refusal) return row;
    const trying = button(t("model.try"), "try-model", () => this.#try(name, trying, result));
    actions.append(trying);
    if (name === next) {
      actions.append(el("span", { class: "hint choice" }, t(name === current ? "model.using" : this.awaited ? "model.loading" : "model.upcoming")));
    } else {
      actions.append(pressable({ class: "button small choice", "data-testid": "use-model" }, () => this.choose(name), t("model.use")));
    }
    return row;
  }

  /** Where the key of a server is typed; the page forgets it once the device has it. @param {string} name */
  #keyField(name) {
    const input = el("input", { type: "password", autocomplete: "off", "data-testid": "model-key" });
    const refused = el("p", { class: "notice", role: "alert", hidden: true });
    const give = async () => {
      const key = input.value.trim();
      input.value = "";
      if (!key) return input.focus();
      try {
        await giveKey(name, key);
        await this.load();
      } catch (error) {
        refused.textContent = messageOf(error);
        refused.hidden = false;
        input.focus();
      }
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") give();
    });
    return el("div", { class: "model-key" }, el("label", { class: "field" }, el("span", {}, t("sign.key")), input), button(t("model.key.give"), "give-key", give), refused);
  }

  /** Shows what is chosen in the row that has the same model; a trial in it goes on. @param {HTMLElement} row */
  #renew(row) {
    const choice = row.querySelector(".choice");
    const known = [...this.#list.children].find((each) => /** @type {HTMLElement} */ (each).dataset.name === row.dataset.name);
    if (choice) known?.querySelector(".choice")?.replaceWith(choice);
  }

  /** Loads it beside the one that answers; a second press ends that. @param {string} name @param {HTMLElement} pressed @param {HTMLElement} result */
  async #try(name, pressed, result) {
    if (this.#trying) return this.#trying.abort();
    const controller = (this.#trying = new AbortController());
    pressed.textContent = t("cancel");
    result.replaceChildren(el("p", { class: "hint" }, t("model.trying")));
    result.scrollIntoView({ block: "nearest" });
    try {
      const trial = await tryModel(name, controller.signal);
      result.replaceChildren(...verdict(trial));
      if (trial.answer) learnPace(name, trial.words_per_s);
    } catch (error) {
      result.replaceChildren(...(controller.signal.aborted ? [] : [el("p", { class: "notice" }, messageOf(error))]));
    }
    result.scrollIntoView({ block: "nearest" });
    pressed.textContent = t("model.try");
    this.#trying = null;
  }

  /** Has it take over as soon as it is loaded, or at the next start. @param {string} name */
  async choose(name) {
    this.#notice.hidden = true;
    try {
      await chooseModel(name);
      announce(t("model.chosen", { name }));
      await this.load();
      this.#now.scrollIntoView({ block: "center" });
    } catch (error) {
      this.#fail(messageOf(error));
    }
  }

  get #failure() {
    return this.#notice.hidden ? "" : this.#notice.textContent ?? "";
  }

  /** @param {string} message */
  #fail(message) {
    this.#notice.textContent = message;
    this.#notice.hidden = false;
    this.onUpcoming(message);
  }
}

/** What trying a model has shown, in words that say whether to choose it. @param {Trial} trial @returns {HTMLElement[]} */
function verdict(trial) {
  const { question, text, answer, works, fits } = trial;
  const found = text ? (works ? "trial.works.quotes" : "trial.works.quotes.not") : works ? "trial.works" : "trial.works.not";
  const given = text ? `${t("trial.given", { text: text.replaceAll("\n", " ") })} ` : "";
  return [
    el("p", { class: "hint" }, given + t("trial.asked", { question })),
    ...(answer ? [el("blockquote", { "data-testid": "trial-answer" }, answer)] : []),
    el("ul", { class: "verdict", "data-testid": "trial-verdict" },
      line(works, t(found)),
      ...(answer ? [pace(trial)] : []),
      memory(trial),
      // That device and cloud start anew with it is the usual case, and no warning.
      line(fits !== false || trial.localizable?.peer?.code === "trial.unfit", localized(trial, "peer"))),
  ];
}

/** @param {Trial} trial */
function pace({ words_per_s: words }) {
  const found = words >= FASTER ? "fast" : words >= EVEN ? "even" : words >= SLOWER ? "slow" : "crawling";
  return line(words >= EVEN, t(`trial.pace.${found}`, { pace: number(words, words < 10 ? 1 : 0) }));
}

/** @param {Trial} trial */
function memory({ memory: needed, installed }) {
  if (needed === null) return line(true, t("trial.memory.elsewhere"));
  const found = needed > installed ? "over" : needed > ROOMY * installed ? "tight" : "fits";
  return line(found === "fits", t(`trial.memory.${found}`, { needed: formatBytes(needed), installed: formatBytes(installed) }));
}

/** @param {boolean} good @param {string} said */
function line(good, said) {
  return el("li", { "data-good": String(good) }, icon(good ? "icon-check" : "icon-warning"), el("span", {}, said));
}
