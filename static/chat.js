/** The conversation: its turns, what of them is sent with a question, and the answer being written. */

import { AnswerView } from "./answer.js";
import { byId, el, icon } from "./dom.js";

/** @typedef {import("./types.js").AnswerFrame} AnswerFrame */
/** @typedef {import("./types.js").Message} Message */
/** @typedef {import("./types.js").Problem} Problem */
/** @typedef {import("./socket.js").DeviceSocket} DeviceSocket */
/** @typedef {{id: string, question: string, isPrivate: boolean, answer: AnswerView, element: HTMLElement}} Turn */

/** Distance in pixels from the end within which the page follows the text as it grows. */
const FOLLOW = 96;

export class Chat {
  /** @type {Turn[]} */
  #turns = [];
  /** @type {Turn | null} */
  #active = null;
  #count = 0;
  #log = byId("log");
  #scroll = byId("scroll");
  #following = true;
  #scrollTop = 0;

  /**
   * @param {object} options
   * @param {DeviceSocket} options.socket
   * @param {() => boolean} options.joint Whether the cloud takes part now.
   * @param {(state: {busy: boolean, empty: boolean}) => void} options.onChange
   */
  constructor({ socket, joint, onChange }) {
    this.socket = socket;
    this.joint = joint;
    this.onChange = onChange;
    this.#scroll.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.#scroll;
      // Growing text moves the end away too; only going up means that the person wants to stay.
      if (scrollTop < this.#scrollTop) this.#following = false;
      if (scrollHeight - scrollTop - clientHeight < FOLLOW) this.#following = true;
      this.#scrollTop = scrollTop;
    });
    const observer = new ResizeObserver(() => this.#follow());
    observer.observe(this.#log);
    observer.observe(this.#scroll);
  }

  /** @param {string} question @param {boolean} isPrivate */
  ask(question, isPrivate) {
    const answer = new AnswerView({ joint: this.joint(), isPrivate });
    const element = el("div", { class: "turn" }, questionView(question, isPrivate), answer.element);
    const turn = { id: `c${++this.#count}`, question, isPrivate, answer, element };
    const messages = [...this.#history(isPrivate), message("user", question)];
    this.#turns.push(turn);
    this.#active = turn;
    this.#log.append(element);
    this.#following = true;
    this.#follow();
    this.socket.ask(turn.id, messages, isPrivate ? { private: true } : {});
    this.#changed();
  }

  stop() {
    if (this.#active) this.socket.stop(this.#active.id);
  }

  /** Forgets the conversation and stops an answer that is still being written. */
  clear() {
    this.stop();
    this.#turns = [];
    this.#active = null;
    this.#log.replaceChildren();
    this.#changed();
  }

  /** Takes a frame of an answer; frames of answers that are over or forgotten fall on the floor. @param {AnswerFrame} frame */
  receive(frame) {
    const turn = this.#active;
    if (!turn || (frame.id !== turn.id && frame.id !== null)) return;
    if (frame.type === "sources") turn.answer.showSources(frame.sources);
    else if (frame.type === "token") turn.answer.append(frame.text);
    else if (frame.type === "peer") turn.answer.changePeer(frame);
    else if (frame.type === "error") this.#fail(turn, frame.error);
    else if (frame.type === "done") {
      turn.answer.finish(frame);
      this.#settle();
    }
  }

  /** The connection to the device is gone, and with it the answer being written. */
  disconnected() {
    if (!this.#active) return;
    this.#fail(this.#active, {
      message: "The connection to the device was lost before the answer was complete. Once it is back, ask again.",
    });
  }

  /** @param {Turn} turn @param {Problem} problem */
  #fail(turn, problem) {
    const remedy =
      problem.code === "context_length_exceeded"
        ? { label: "New chat", act: () => this.clear() }
        : { label: "Ask again", act: () => this.#retry(turn) };
    turn.answer.fail(problem, remedy);
    this.#settle();
  }

  /** @param {Turn} turn */
  #retry(turn) {
    if (this.#active || !this.socket.connected) return;
    this.#turns = this.#turns.filter((other) => other !== turn);
    turn.element.remove();
    this.ask(turn.question, turn.isPrivate);
  }

  /**
   * Earlier turns that were answered. A private turn goes along with private questions only:
   * sent with an open one it would reach the cloud after all.
   *
   * @param {boolean} isPrivate
   * @returns {Message[]}
   */
  #history(isPrivate) {
    return this.#turns
      .filter(({ answer }) => answer.state !== "error" && answer.text)
      .filter((turn) => isPrivate || !turn.isPrivate)
      .flatMap(({ question, answer }) => [message("user", question), message("assistant", answer.text)]);
  }

  #settle() {
    this.#active = null;
    this.#changed();
  }

  #changed() {
    this.onChange({ busy: this.#active !== null, empty: this.#turns.length === 0 });
  }

  #follow() {
    if (this.#following) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
}

/** @param {Message["role"]} role @param {string} content @returns {Message} */
function message(role, content) {
  return { role, content };
}

/** @param {string} question @param {boolean} isPrivate */
function questionView(question, isPrivate) {
  const bubble = el("div", { class: "question", "data-testid": "question" }, el("p", {}, question));
  if (isPrivate) bubble.append(el("p", { class: "question-note" }, icon("icon-private"), "Kept on this device"));
  return bubble;
}
