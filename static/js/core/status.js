/** The line in the header that says whether the cloud takes part, and the page's own connection. */

import { announce, byId, el } from "./dom.js";
import { localized, t } from "./strings.js";

/** @typedef {import("./types.js").Peer} Peer */

export class PeerStatus {
  /** @type {Peer | null} */
  #peer = null;
  /** @type {"private" | "never" | "when_needed" | "always"} */
  #rung = "when_needed";
  #openly = false;
  #model = "";
  #root = byId("peer");
  #summary = /** @type {HTMLElement} */ (this.#root.querySelector("summary"));
  #glyph = /** @type {SVGUseElement} */ (this.#root.querySelector("use"));
  #line = /** @type {HTMLElement} */ (this.#root.querySelector(".peer-line"));
  #explanation = /** @type {HTMLElement} */ (this.#root.querySelector(".peer-explanation"));
  #facts = /** @type {HTMLElement} */ (this.#root.querySelector(".facts"));

  constructor() {
    const details = /** @type {HTMLDetailsElement} */ (this.#root);
    document.addEventListener("click", (event) => {
      if (!details.contains(/** @type {Node} */ (event.target))) details.open = false;
    });
    details.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !details.open) return;
      details.open = false;
      this.#summary.focus();
      event.stopPropagation();
    });
  }

  /** Whether a question asked now would be answered with the cloud. */
  get joint() {
    return this.#peer?.state === "connected";
  }

  /** Milliseconds to the cloud and back, if there is one. */
  get roundTrip() {
    return this.joint ? this.#peer?.rtt_ms ?? null : null;
  }

  /**
   * When the cloud takes part in the next answer.
   *
   * @param {"private" | "never" | "when_needed" | "always"} rung
   * @param {boolean} openly Whether what is shown was not kept on the device, or not all of it.
   */
  setRung(rung, openly) {
    if (rung === this.#rung && openly === this.#openly) return;
    this.#rung = rung;
    this.#openly = openly;
    this.#render();
  }

  /** @param {string} model */
  setModel(model) {
    this.#model = model;
    this.#render();
  }

  /** @param {Peer | null} peer `null` while there is no connection to the device. */
  setPeer(peer) {
    const changed = peer?.state !== this.#peer?.state;
    this.#peer = peer;
    this.#render();
    if (changed && peer) announce(t(this.#said));
  }

  /** What the header says: a private chat is private whether or not the cloud could be reached. */
  get #said() {
    if (this.#peer && this.#rung === "never") return "rung.never";
    if (this.#peer && this.#rung === "private") return this.#openly ? "rung.private.now" : "rung.private";
    return this.joint ? `rung.${this.#rung}` : `link.${this.#peer?.state ?? "unknown"}`;
  }

  #render() {
    const peer = this.#peer;
    const state = peer?.state ?? "unknown";
    const apart = !this.joint || this.#rung === "never" || this.#rung === "private";
    const roundTrip = peer?.rtt_ms == null ? null : `${Math.max(1, Math.round(peer.rtt_ms))} ms`;

    this.#summary.dataset.state = state;
    this.#summary.dataset.rung = this.#rung;
    this.#glyph.setAttribute("href", apart ? "#strands-alone" : "#strands-together");
    this.#line.replaceChildren(t(this.#said));
    if (this.#said === "link.refused" && peer?.detail) this.#line.append(`: ${localized(peer, "detail")}`);
    this.#explanation.textContent = t(`${this.#said}.text`);
    this.#facts.replaceChildren(
      ...fact(t("link.trip"), apart ? null : roundTrip),
      ...fact(t("link.reason"), state === "connected" || !peer ? null : localized(peer, "detail")),
      ...fact(t("link.model"), this.#model),
    );
  }
}

/** @param {string} term @param {string | null | undefined} value */
function fact(term, value) {
  return value ? [el("dt", {}, term), el("dd", {}, value)] : [];
}

/** The banner above the question while the device cannot be reached, or says nothing. @param {"lost" | "quiet" | null} state */
export function showConnection(state) {
  byId("connection").hidden = !state;
  byId("connection-text").textContent = state ? t(`link.${state}`) : "";
  byId("connection-retry").hidden = state !== "lost";
}
