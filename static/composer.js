/** Where the question is written: the text, the private switch, and send or stop. */

import { byId } from "./dom.js";

const LEAVES = "What leaves this device: the conversation’s tokens and next-word probabilities; never your documents.";
const STAYS = "Private: the cloud takes no part. This question and its answer stay on the device, in later turns too.";

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
   * @param {(text: string, isPrivate: boolean) => void} handlers.onAsk
   * @param {() => void} handlers.onStop
   */
  constructor({ onAsk, onStop }) {
    this.onAsk = onAsk;
    this.onStop = onStop;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.#prompt.addEventListener("input", () => this.#render());
    this.#private.addEventListener("change", () => this.#render());
    this.#stop.addEventListener("click", () => this.onStop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#busy && !document.querySelector("dialog[open]")) this.onStop();
    });
    this.#render();
  }

  focus() {
    this.#prompt.focus();
  }

  /** @param {boolean} connected */
  setConnected(connected) {
    this.#connected = connected;
    this.#render();
  }

  /** While an answer is being written the stop button stands where send was. @param {boolean} busy */
  setBusy(busy) {
    const focused = document.activeElement === (busy ? this.#send : this.#stop);
    this.#busy = busy;
    this.#stop.disabled = false;
    this.#render();
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
    this.onAsk(text, this.#private.checked);
    this.#render();
  }

  #render() {
    this.#send.disabled = !this.#connected || !this.#prompt.value.trim();
    this.#send.hidden = this.#busy;
    this.#stop.hidden = !this.#busy;
    this.#form.classList.toggle("is-private", this.#private.checked);
    byId("leaves-line").textContent = this.#private.checked ? STAYS : LEAVES;
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }
}
