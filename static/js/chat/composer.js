/** Where the question is written: the text, the private switch, and send or stop. */

import { byId } from "../core/dom.js";
import { t } from "../core/strings.js";
import { Prompts } from "./prompts.js";

export class Composer {
  #form = /** @type {HTMLFormElement} */ (byId("composer"));
  #prompt = /** @type {HTMLTextAreaElement} */ (byId("prompt"));
  #private = /** @type {HTMLInputElement} */ (byId("private"));
  #send = /** @type {HTMLButtonElement} */ (byId("send"));
  #stop = /** @type {HTMLButtonElement} */ (byId("stop"));
  #connected = false;
  #busy = false;

  /**
   * @param {object} handlers
   * @param {(text: string) => void} handlers.onAsk
   * @param {() => void} handlers.onStop
   * @param {() => string} handlers.leaves What leaves the device, unless this question is private.
   * @param {(isPrivate: boolean) => void} handlers.onPrivate The person has switched it.
   */
  constructor({ onAsk, onStop, leaves, onPrivate }) {
    this.onAsk = onAsk;
    this.onPrivate = onPrivate;
    this.leaves = leaves;
    this.onStop = onStop;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    // Before the next listener: Enter chooses what is listed.
    new Prompts(this.#prompt, (text) => this.fill(text));
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#prompt.addEventListener("input", () => this.render());
    this.#private.addEventListener("change", () => this.onPrivate(this.#private.checked));
    this.#stop.addEventListener("click", () => this.onStop());
    byId("refusal-close").addEventListener("click", () => this.refuse(""));
    this.render();
  }

  /** Shows whether the chat is private. @param {boolean} isPrivate @param {boolean} fixed By the settings: not to be switched here. */
  setPrivate(isPrivate, fixed) {
    this.#private.checked = isPrivate;
    this.#private.disabled = fixed;
    this.render();
  }

  togglePrivate() {
    this.#private.click();
  }

  focus() {
    this.#prompt.focus();
  }

  /** Puts a text where the question is written. @param {string} text */
  fill(text) {
    this.#prompt.value = text;
    this.render();
    this.focus();
  }

  /** Says why a question was not taken, and gives it back. @param {string} reason @param {string} [text] */
  refuse(reason, text) {
    byId("refusal-text").textContent = reason;
    byId("refusal").hidden = !reason;
    if (text && !this.#prompt.value) this.fill(text);
  }

  /** @param {boolean} connected */
  setConnected(connected) {
    this.#connected = connected;
    this.render();
  }

  /** While an answer is being written the stop button stands where send was. @param {boolean} busy */
  setBusy(busy) {
    const focused = document.activeElement === (busy ? this.#send : this.#stop);
    this.#busy = busy;
    this.#stop.disabled = false;
    this.render();
    if (focused) (busy ? this.#stop : this.#prompt).focus();
  }

  /** The stop has been asked for and is on its way. */
  setStopping() {
    this.#stop.disabled = true;
  }

  #submit() {
    const text = this.#prompt.value.trim();
    if (!text || !this.#connected || this.#busy) return;
    this.#prompt.value = "";
    this.refuse("");
    this.onAsk(text);
    this.render();
  }

  /** Also to be called where what leaves the device has changed. */
  render() {
    this.#send.disabled = !this.#connected || !this.#prompt.value.trim();
    this.#send.hidden = this.#busy;
    this.#stop.hidden = !this.#busy;
    this.#form.classList.toggle("is-private", this.#private.checked);
    byId("leaves-line").textContent = !this.#private.checked ? this.leaves() : t(this.#private.disabled ? "leaves.fixed" : "leaves.private");
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }
}
