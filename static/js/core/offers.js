/** The settings' list of models to get: how large each is, what it is good at, how far it has come. */

import { cancelOffer, getOffer, listOffers, messageOf } from "./api.js";
import { pressable } from "./controls.js";
import { announce, el, formatBytes, icon } from "./dom.js";
import { localized, number, t } from "./strings.js";

/** @typedef {import("./types.js").Offer} Offer */

const LOOK_MS = 500;

export class Offers {
  #list = el("ul", { class: "models" });
  #notice = el("p", { class: "notice", role: "alert", hidden: true });
  element = el("details", { class: "details", id: "offers", "data-testid": "offers" },
    el("summary", {}, icon("icon-chevron", "icon chevron"), t("offer")), el("p", { class: "hint" }, t("offer.text")), this.#notice, this.#list);
  #timer = 0;
  /** Those on their way when it was last looked. @type {Set<string>} */
  #coming = new Set();

  /** @param {() => void} onHere One has come. @param {(name: string) => void} onChoose */
  constructor(onHere, onChoose) {
    this.onHere = onHere;
    this.onChoose = onChoose;
    this.element.addEventListener("toggle", () => this.load());
  }

  /** Looks how far each is, and again as long as one is on its way and the list is seen. */
  async load() {
    clearTimeout(this.#timer);
    if (!this.element.open) return;
    try {
      this.#show(await listOffers());
    } catch (error) {
      this.#fail(messageOf(error));
    }
    clearTimeout(this.#timer);
    if (this.#coming.size && this.element.checkVisibility()) this.#timer = setTimeout(() => this.load(), LOOK_MS);
  }

  /** @param {Offer[]} offers */
  #show(offers) {
    const focused = /** @type {HTMLElement | null} */ (this.#list.contains(document.activeElement) ? document.activeElement?.closest("[data-name]") : null)?.dataset.name;
    const here = offers.filter(({ name, stage }) => stage === "here" && this.#coming.has(name));
    this.#coming = new Set(offers.filter(({ stage }) => stage === "coming").map(({ name }) => name));
    this.#list.replaceChildren(...offers.map((offer) => this.#row(offer)));
    if (focused) /** @type {HTMLElement | null} */ (this.#list.querySelector(`[data-name="${focused}"] button`))?.focus({ preventScroll: true });
    for (const { name } of here) announce(t("offer.come", { name }));
    if (here.length) this.onHere();
  }

  /** @param {Offer} offer */
  #row(offer) {
    const { name, size, there, memory, licence, stage, fits } = offer;
    const facts = [formatBytes(size), t("offer.memory", { size: formatBytes(memory) }), t("offer.licence", { licence })];
    const actions = el("div", { class: "model-actions" });
    const act = (/** @type {string} */ label, /** @type {string} */ testid, /** @type {() => void} */ press) => {
      actions.append(pressable({ class: "button small", "data-testid": testid, "aria-label": `${t(label)}: ${name}` }, press, t(label)));
    };
    const problem = localized(offer, "problem");
    const row = el("li", { class: "model", "data-testid": "offer", "data-name": name, "data-stage": stage },
      el("p", { class: "model-name" }, name),
      el("p", { class: "hint" }, facts.join(" · ")),
      el("p", { class: "hint" }, localized(offer, "good_at")),
      ...(problem ? [el("p", { class: "notice" }, problem)] : []),
      actions);
    if (stage === "coming" || stage === "part") {
      const said = t("offer.there", { there: formatBytes(there), size: formatBytes(size) });
      actions.before(el("progress", { max: size, value: there, "aria-label": name }), el("p", { class: "hint" }, `${said} (${number(Math.floor((100 * there) / size))} %)`));
    }
    if (stage === "here") act("model.use", "choose-offer", () => this.onChoose(name));
    else if (stage === "coming") act("cancel", "cancel-offer", () => this.#do(cancelOffer(name)));
    else if (!fits) actions.append(el("span", { class: "hint" }, t("offer.large")));
    else act(stage === "part" ? "offer.resume" : "offer.get", "get-offer", () => this.#do(getOffer(name)));
    return row;
  }

  /** @param {Promise<unknown>} request */
  async #do(request) {
    try {
      await request;
      this.#notice.hidden = true;
    } catch (error) {
      this.#fail(messageOf(error));
    }
    await this.load();
  }

  /** @param {string} message */
  #fail(message) {
    this.#notice.textContent = message;
    this.#notice.hidden = false;
  }
}
