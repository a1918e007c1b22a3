/** What an answer waits for before its first word: which step that is, for how long, and how long it usually takes here. */

import { el } from "../core/dom.js";
import { keep, kept } from "../core/kept.js";
import { t } from "../core/strings.js";

/** @typedef {"sending" | "searching" | "reading" | "writing"} Step */

const USUAL = "dragon.waits";
/** From when on the seconds are counted: before that they would only make the page restless. */
const LONG_MS = 2000;
/** How much of what is usual is the latest time. */
const LATEST = 0.3;

export class Waiting {
  #said = el("span");
  #passed = el("span", { class: "passed", "data-testid": "waited" });
  element = el("p", { class: "wait", "data-testid": "wait", hidden: true }, this.#said, this.#passed);
  #timer = 0;
  #begun = 0;
  /** @type {Step | null} */
  #step = null;

  /** The step before it is done. @param {Step} step @param {string} said */
  begin(step, said) {
    this.#learn();
    this.element.hidden = false;
    this.#said.textContent = said;
    this.#passed.textContent = "";
    this.#step = step;
    this.#begun = performance.now();
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#tick(), 1000);
  }

  /** The first word is there: all steps are done. */
  done() {
    this.#learn();
    this.stop();
  }

  /** Nothing is waited for any more. */
  stop() {
    this.#step = null;
    this.element.hidden = true;
    clearInterval(this.#timer);
  }

  #learn() {
    if (!this.#step) return;
    const times = usual();
    const ms = performance.now() - this.#begun;
    times[this.#step] = ms * LATEST + (times[this.#step] ?? ms) * (1 - LATEST);
    keep(USUAL, times);
  }

  #tick() {
    const ms = performance.now() - this.#begun;
    if (!this.#step || ms < LONG_MS) return;
    const often = Math.round((usual()[this.#step] ?? 0) / 1000);
    const passed = Math.round(ms / 1000);
    this.#passed.textContent = ` · ${often ? t("answer.waited.usual", { passed, often }) : t("answer.waited", { passed })}`;
  }
}

/** Milliseconds of each step that was seen before. @returns {{[step in Step]?: number}} */
const usual = () => kept(USUAL, {});
