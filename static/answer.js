/** One answer: its text as it streams, the seams where the cloud left or came back, its sources. */

import { announce, el, icon, plural } from "./dom.js";
import { SourcesView } from "./sources.js";

/** @typedef {import("./types.js").Source} Source */
/** @typedef {import("./types.js").Done} Done */
/** @typedef {import("./types.js").PeerFrame} PeerFrame */
/** @typedef {import("./types.js").Problem} Problem */
/** @typedef {"streaming" | "done" | "stopped" | "error"} AnswerState */

const SEAMS = {
  lost: "The cloud dropped out here. The device goes on alone.",
  joined: "The cloud joins in from here.",
};

export class AnswerView {
  text = "";
  #wait = el("p", { class: "wait" }, "Searching your documents");
  #body = el("div", { class: "text", "data-testid": "answer-text" });
  #sources = new SourcesView();
  #foot = el("p", { class: "foot", hidden: true });
  /** Holds everything; `data-state` is one of `AnswerState`. */
  element = el(
    "article",
    { class: "answer", "data-testid": "answer", "data-state": "streaming", "aria-label": "Answer", "aria-busy": "true" },
    this.#body,
    this.#wait,
    this.#foot,
    this.#sources.element,
  );
  #started = performance.now();
  #frame = 0;
  /** Text that has come but is not on the page yet. */
  #pending = "";
  /** @type {Text} */
  #tail;
  /** @type {PeerFrame | null} */
  #seam = null;

  /** @param {{joint: boolean, isPrivate: boolean}} options `joint`: whether the cloud is there as the answer begins */
  constructor({ joint, isPrivate }) {
    this.isPrivate = isPrivate;
    this.#tail = this.#segment(joint && !isPrivate);
  }

  get state() {
    return /** @type {AnswerState} */ (this.element.dataset.state);
  }

  /** @param {Source[]} sources */
  showSources(sources) {
    this.#sources.show(sources);
    this.#wait.textContent = "Writing";
  }

  /** Adds text; the page changes once a frame, however fast tokens come. @param {string} text */
  append(text) {
    this.text += text;
    this.#pending += text;
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#flush());
  }

  /** @param {PeerFrame} frame */
  changePeer(frame) {
    this.#flush();
    if (this.text.trim() === "") {
      this.#markSegments(frame.joint);
      return;
    }
    if (this.#seam) this.#sew();
    this.#seam = frame;
    announce(frame.joint ? SEAMS.joined : SEAMS.lost);
    this.#flush();
  }

  /** @param {Done} done */
  finish(done) {
    const stopped = done.finish_reason === "cancelled";
    this.#end(stopped ? "stopped" : "done");
    const parts = [
      stopped && "Stopped",
      done.finish_reason === "length" && "Cut at the length limit",
      this.#authorship(done),
      `${((performance.now() - this.#started) / 1000).toFixed(1)} s`,
    ];
    this.#foot.textContent = parts.filter(Boolean).join(" · ");
    this.#foot.hidden = false;
    announce(stopped ? "Answer stopped" : "Answer complete");
  }

  /**
   * Ends with an error below whatever text there is.
   *
   * @param {Problem} problem
   * @param {{label: string, act: () => void}} remedy
   */
  fail(problem, remedy) {
    this.#end("error");
    const button = el("button", { class: "button small", type: "button" }, remedy.label);
    button.addEventListener("click", remedy.act);
    this.#foot.before(
      el("div", { class: "problem", role: "alert" }, icon("icon-warning"), el("p", {}, problem.message), button),
    );
  }

  /** @param {AnswerState} state */
  #end(state) {
    this.#flush();
    if (this.#seam) this.#sew();
    this.#wait.remove();
    this.element.dataset.state = state;
    this.element.setAttribute("aria-busy", "false");
  }

  /** How long it is and who wrote it, as far as that is told. @param {Done} done */
  #authorship({ usage, dragon }) {
    const total = usage.completion_tokens;
    const tokens = plural(total, "token");
    if (this.isPrivate) return `Kept on this device · ${tokens}`;
    if (!dragon?.participation || total === 0) return tokens;
    const joint = dragon.participation.reduce((sum, [from, to]) => sum + to - from, 0);
    if (joint > 0 && joint < total) return `With the cloud for ${joint} of ${tokens}`;
    this.#markSegments(joint > 0);
    return `${joint > 0 ? "Written with the cloud" : "Written by this device alone"} · ${tokens}`;
  }

  /** A seam waits for the end of the word it fell into, so that no word is torn apart. */
  #flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    if (this.#seam) {
      const [word, rest] = splitWord(this.#tail.data, this.#pending);
      this.#pending = word;
      this.#put();
      if (rest === null) return;
      this.#sew();
      this.#pending = rest;
    }
    this.#put();
  }

  #put() {
    const first = this.#body.childElementCount === 1 && !this.#tail.data;
    const text = first ? this.#pending.trimStart() : this.#pending;
    this.#pending = "";
    if (!text) return;
    this.#tail.appendData(text);
    this.#wait.hidden = true;
  }

  #sew() {
    const { joint, reason } = /** @type {PeerFrame} */ (this.#seam);
    this.#seam = null;
    this.#body.append(
      el(
        "p",
        { class: "seam", "data-testid": "seam", "data-joint": String(joint), title: reason },
        icon(joint ? "strands-together" : "strands-alone", "strands"),
        joint ? SEAMS.joined : SEAMS.lost,
      ),
    );
    this.#tail = this.#segment(joint);
  }

  /** Starts a stretch of text by the same authors. @param {boolean} joint */
  #segment(joint) {
    const text = document.createTextNode("");
    this.#body.append(el("div", { class: "segment", "data-testid": "answer-segment", "data-joint": String(joint) }, text));
    return text;
  }

  /** @param {boolean} joint */
  #markSegments(joint) {
    for (const segment of this.#body.querySelectorAll(".segment")) {
      segment.setAttribute("data-joint", String(joint));
    }
  }
}

/**
 * Cuts new text where the word ends that the text before it may have left open.
 *
 * @param {string} before
 * @param {string} text
 * @returns {[string, string | null]} `null` when the word goes on beyond the text.
 */
function splitWord(before, text) {
  if (/\s$/.test(before)) return ["", text];
  const space = text.search(/\s/);
  return space < 0 ? [text, null] : [text.slice(0, space + 1), text.slice(space + 1)];
}
