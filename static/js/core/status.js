/** The line in the header that says whether the cloud takes part, and the page's own connection. */

import { announce, byId, el } from "./dom.js";

/** @typedef {import("./types.js").Peer} Peer */

/** @type {Record<Peer["state"] | "unknown", {line: string, explanation: string}>} */
const TEXTS = {
  connected: {
    line: "With the cloud",
    explanation: "The cloud takes part: its model and the one on this device write each answer together, token by token.",
  },
  connecting: {
    line: "On its own, looking for the cloud",
    explanation: "The cloud does not answer yet. Until it does, this device answers alone, from your documents.",
  },
  refused: {
    line: "Refused by the cloud",
    explanation: "The cloud refused this device, so it answers alone, from your documents.",
  },
  off: {
    line: "On its own",
    explanation: "No cloud takes part. This device answers alone, from your documents.",
  },
  unknown: {
    line: "Device not reached",
    explanation: "This page has no connection to the device, so it cannot tell whether the cloud takes part.",
  },
};

export class PeerStatus {
  /** @type {Peer | null} */
  #peer = null;
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
    if (changed && peer) announce(TEXTS[peer.state].line);
  }

  #render() {
    const peer = this.#peer;
    const state = peer?.state ?? "unknown";
    const { line, explanation } = TEXTS[state];
    const roundTrip = peer?.rtt_ms == null ? null : `${Math.max(1, Math.round(peer.rtt_ms))} ms`;

    this.#summary.dataset.state = state;
    this.#glyph.setAttribute("href", this.joint ? "#strands-together" : "#strands-alone");
    this.#line.replaceChildren(line);
    if (state === "connected" && roundTrip) this.#line.append(el("span", { class: "number" }, roundTrip));
    if (state === "refused" && peer?.detail) this.#line.append(`: ${peer.detail}`);
    this.#explanation.textContent = explanation;
    this.#facts.replaceChildren(
      ...fact("Round trip", state === "connected" ? roundTrip : null),
      ...fact("Reason", state === "connected" ? null : peer?.detail),
      ...fact("Model", this.#model),
    );
  }
}

/** @param {string} term @param {string | null | undefined} value */
function fact(term, value) {
  return value ? [el("dt", {}, term), el("dd", {}, value)] : [];
}

/**
 * The banner above the question while the device cannot be reached.
 *
 * @param {boolean} connected
 */
export function showConnection(connected) {
  byId("connection").hidden = connected;
  byId("connection-text").textContent = connected
    ? ""
    : "No connection to the device. Check that DRAGON is still running; this page keeps trying.";
}
