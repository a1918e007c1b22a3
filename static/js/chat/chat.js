/** The conversation that is open: its branch on the page, and the answers being written in it. */

import { changeConversation, getConversation, getTokens, messageOf } from "../core/api.js";
import { AnswerView } from "./answer.js";
import { byId, el } from "../core/dom.js";
import { Following } from "./following.js";
import { localized, phrased, t } from "../core/strings.js";
import { QuestionView } from "./question.js";
import { Tree } from "./tree.js";
import { Waiting } from "./waiting.js";

/** @typedef {import("../core/types.js").Conversation} Conversation */
/** @typedef {import("../core/types.js").Message} Message */
/** @typedef {import("../core/socket.js").DeviceSocket} DeviceSocket */

/** The temperature of another answer, unless one is set: at the usual one it would seldom be another. */
const LIVELY = 1;

/** How a question is asked that may go to the cloud, whatever is chosen for all. */
const OPENLY = { private: false, cloud: "always" };
const PRIVATE = "dragon.private";

export class Chat {
  /** @type {Conversation | null} */
  conversation = null;
  #tree = new Tree();
  /** What is on the page or was, by message. @type {Map<string, AnswerView | QuestionView>} */
  #views = new Map();
  /** A request that has not begun yet, what it asked, whether the chat was private then, and whether it is to be stopped. @type {{id: string, text: string, kept: boolean, stopped?: boolean} | null} */
  #asked = null;
  /** Stands where the question will, until the device has taken it. */
  #sending = el("div", { "data-testid": "sending" });
  #waiting = new Waiting();
  /** Of a conversation that has not begun: in this tab as in the one before it. */
  #private = sessionStorage.getItem(PRIVATE) !== null;
  #opening = 0;
  /** How many times the branch is being read again, and whether it is to be once more when the question has begun. */
  #rereading = 0;
  #stale = false;
  #log = byId("log");
  #following = new Following(this.#log);

  /**
   * @param {object} options
   * @param {DeviceSocket} options.socket
   * @param {() => object} options.params What goes with every question.
   * @param {() => string} options.project That a new conversation is of; empty: none.
   * @param {() => void} options.onChange
   * @param {(conversation: Conversation) => void} options.onBegun
   * @param {(message: string, text: string) => void} options.onRefused
   * @param {(depth: number) => void} options.onInspect `depth` is the answer's place in the branch.
   * @param {() => boolean} options.quotes Whether the model can only quote.
   * @param {() => boolean} options.reachable Whether the cloud is.
   * @param {() => string} options.sends What the cloud gets with a question, in words.
   * @param {() => Promise<boolean>} options.mayAsk Whether a question may go to the cloud, though the chat is private.
   * @param {() => boolean} options.hasDocuments Whether there are documents.
   * @param {() => void} options.add Documents.
   * @param {(conversation: string) => void} options.onWritten Its messages or its branch have changed.
   */
  constructor(options) {
    this.options = options;
  }

  /** The answer at the end of the branch that is shown. @returns {AnswerView | null} */
  get last() {
    const view = this.#views.get(this.#tree.leaf ?? "");
    return view instanceof AnswerView ? view : null;
  }

  /** Whether what is asked next stays on the device. */
  get isPrivate() {
    return this.conversation?.private ?? this.#private;
  }

  /** @param {boolean} on */
  setPrivate(on) {
    if (this.conversation) {
      this.conversation.private = on;
      changeConversation(this.conversation.id, { private: on }).then(({ id }) => this.options.onWritten(id), (error) => this.options.onRefused(messageOf(error), ""));
    }
    this.#remember(on);
    this.options.onChange();
  }

  /** @param {boolean} on */
  #remember(on) {
    this.#private = on;
    if (on) sessionStorage.setItem(PRIVATE, "1");
    else sessionStorage.removeItem(PRIVATE);
  }

  /** Whether something on the branch that is shown was not kept on the device, or not from its beginning. */
  get openly() {
    return this.#tree.path.some((message) => !message.private || message.private_from !== undefined);
  }

  /** The answer at a place of the branch that is shown, or the last. @param {number | null} depth @returns {AnswerView | null} */
  answerAt(depth) {
    const view = depth === null ? null : this.#views.get(this.#tree.path[depth]?.id ?? "");
    return view instanceof AnswerView ? view : this.last;
  }

  /** Whether there are questions before an answer's own on its branch. @param {Message} message */
  follows({ parent }) {
    return !!this.#tree.get(parent ?? "")?.parent;
  }

  /** What is said below the answers may have changed. */
  documentsChanged() {
    for (const view of this.#shown()) view.documentsChanged();
  }

  get busy() {
    return this.#asked !== null || (this.last?.writing ?? false);
  }

  get empty() {
    return this.#tree.all.length === 0 && this.#asked === null;
  }

  /** Opens a conversation, or with null an empty page, private if the one before was. Raises `ApiError`. @param {string | null} id */
  async open(id) {
    const opening = ++this.#opening;
    const whole = id === null ? null : await getConversation(id);
    if (opening !== this.#opening) return;
    for (const view of this.#views.values()) if (view instanceof AnswerView) view.remove();
    this.#views.clear();
    this.#remember(this.isPrivate);
    this.conversation = whole;
    this.#asked = null;
    this.#waiting.stop();
    this.#tree = new Tree(whole?.messages ?? [], whole?.leaf ?? null);
    this.#log.replaceChildren();
    this.#draw();
    if (whole) this.#following.toEnd();
    else this.#following.toTop();
    this.watch();
    this.options.onChange();
  }

  /** Another tab has written in this conversation, or what it quotes was deleted. Raises `ApiError`. */
  async reread() {
    if (!this.conversation) return;
    this.#stale = this.#asked !== null;
    if (this.#stale) return;
    const { id } = this.conversation;
    this.#rereading += 1;
    try {
      await this.#following.keep(() => this.open(id));
    } finally {
      this.#rereading -= 1;
    }
  }

  /** Reads the branch again, if that was put off for a question. */
  #rereadIfStale() {
    if (this.#stale) this.reread().catch((error) => this.options.onRefused(messageOf(error), ""));
  }

  /** Reads on the answers that are being written. */
  watch() {
    for (const { id, state } of this.#tree.all) if (state === "writing") this.options.socket.watch(id);
  }

  /** @param {string} text */
  ask(text) {
    const project = this.conversation ? null : this.options.project() || null;
    if (!this.#write("say", { conversation: this.conversation?.id ?? null, parent: this.#tree.leaf, project, text }, text)) return;
    this.#waiting.begin("sending", t("answer.sending"));
    this.#sending.replaceChildren(el("div", { class: "question" }, el("p", { class: "bubble" }, text)), this.#waiting.element);
    this.#log.append(this.#sending);
  }

  stop() {
    if (this.#asked) this.#asked.stopped = true;
    if (this.last?.writing) this.options.socket.stop(this.last.message.id);
  }

  /**
   * Another answer to the same question: drawn anew, and as the model's own probabilities have it.
   *
   * @param {string} [id] Of an answer; the last by default.
   * @param {object} [params] How to answer, beside what is chosen for all answers.
   * @param {boolean} [other] From passages that no answer has quoted yet.
   */
  again(id = this.#tree.leaf ?? "", params = {}, other = false) {
    const question = this.#tree.get(id)?.parent;
    const { temperature = LIVELY } = /** @type {any} */ (this.options.params());
    // A seed that is set would write the same once more.
    if (question) this.#write("again", { message: question, ...(other && { other }), params: { seed: undefined, temperature, ...params } });
  }

  /** @param {string} [id] */
  goOn(id = this.#tree.leaf ?? "") {
    this.#write("continue", { message: id });
  }

  /** Opens the last question for changes. */
  edit() {
    const question = this.#tree.path.filter(({ role }) => role === "user").at(-1);
    const view = question && this.#views.get(question.id);
    if (view instanceof QuestionView) view.edit();
  }

  /** Another branch of a message, by default of the last that has some. @param {number} step @param {string} [id] */
  branch(step, id) {
    const branching = this.#tree.path.filter((message) => this.#tree.siblings(message).length > 1).at(-1);
    const from = id ?? branching?.id;
    if (!from) return;
    this.#tree.branch(from, step);
    this.#draw();
    this.options.onChange();
    if (this.conversation && this.#tree.leaf) changeConversation(this.conversation.id, { leaf: this.#tree.leaf }).then(({ id: changed }) => this.options.onWritten(changed), () => {});
  }

  /** Takes a frame; those of other conversations' answers fall on the floor. @param {any} frame */
  receive(frame) {
    if (frame.type === "began") return this.#began(frame);
    if (frame.type === "error" && this.#asked?.id === frame.id) return this.#refused(localized({ ...frame.error, localizable: frame.localizable }, "message"));
    const view = this.#views.get(frame.id);
    if (!(view instanceof AnswerView)) return;
    if (frame.type === "message") {
      this.#tree.set(frame.message);
      view.show(frame.message);
    } else {
      view.receive(frame);
    }
    if (frame.type === "message" || frame.type === "done" || frame.type === "error") {
      this.options.onChange();
    }
  }

  /** The connection is gone. Answers are written on; only a question on its way may be lost. */
  disconnected() {
    if (this.#asked) this.#refused(t("link.asking"));
  }

  /** Whether it was sent. @param {"say" | "again" | "continue"} kind @param {Record<string, any>} fields @param {string} [text] */
  #write(kind, fields, text = "") {
    if (this.busy || !this.options.socket.connected) return false;
    if (this.#rereading) {
      // What was read before this question has no place for its answer.
      this.#opening += 1;
      this.#stale = true;
    }
    this.#asked = { id: this.options.socket.write(kind, { ...fields, params: { ...this.options.params(), ...fields.params } }), text, kept: this.isPrivate };
    this.#following.toEnd();
    this.options.onChange();
    return true;
  }

  /** @param {string} reason */
  #refused(reason) {
    const text = this.#asked?.text ?? "";
    this.#asked = null;
    this.#sending.remove();
    this.#waiting.stop();
    this.options.onRefused(reason, text);
    this.options.onChange();
    this.#rereadIfStale();
  }

  /** @param {{id: string, conversation: Conversation, question: Message, answer: Message}} frame */
  #began({ id, conversation, question, answer }) {
    // Asked in a conversation that is not open any more: it is written all the same.
    if (this.#asked?.id !== id) return this.options.onBegun(conversation);
    const { isPrivate } = this;
    const { kept, stopped } = this.#asked;
    const switched = isPrivate !== kept;
    this.#asked = null;
    this.#waiting.done();
    if (stopped) this.options.socket.stop(answer.id);
    this.conversation = conversation;
    // Switched while the question was on its way.
    if (switched) this.setPrivate(isPrivate);
    this.#tree.set(question);
    const known = this.#views.get(answer.id);
    if (known instanceof AnswerView) {
      known.reopen(answer);
      this.#tree.set(known.message);
    } else {
      this.#tree.set(answer);
    }
    this.#tree.leaf = answer.id;
    this.#draw();
    this.#following.toEnd();
    this.options.onBegun(conversation);
    this.options.onWritten(conversation.id);
    this.options.onChange();
    this.#rereadIfStale();
  }

  /** Puts the branch on the page; what is there already stays. */
  #draw() {
    const elements = this.#tree.path.map((message) => {
      const view = this.#views.get(message.id) ?? this.#newView(message);
      const branches = this.#tree.siblings(message);
      view.setBranches(branches.indexOf(message), branches.length);
      if (view instanceof QuestionView) view.setOpenly(branches.some((other) => !other.private && other.text === message.text));
      return view.element;
    });
    elements.forEach((element, index) => {
      const there = this.#log.children[index];
      if (there !== element) this.#log.insertBefore(element, there ?? null);
    });
    while (this.#log.childElementCount > elements.length) this.#log.lastElementChild?.remove();
  }

  /** @param {Message} message */
  #newView(message) {
    const view = message.role === "user"
      ? new QuestionView(message, { edit: (id, text) => this.#editQuestion(id, text), branch: (id, step) => this.branch(step, id) })
      : new AnswerView(message, {
          again: (id, params) => this.again(id, params),
          goOn: (id) => this.goOn(id),
          branch: (id, step) => this.branch(step, id),
          inspect: (id) => this.options.onInspect(this.#tree.path.findIndex((each) => each.id === id)),
          edit: () => this.edit(),
          otherPassage: (id) => this.again(id, {}, true),
          question: (answer) => this.questionOf(answer) ?? "",
          repeats: (id) => this.#tree.repeats(id),
          quotes: () => this.options.quotes(),
          reachable: () => this.options.reachable(),
          hasDocuments: () => this.options.hasDocuments(),
          add: () => this.options.add(),
          sends: () => this.options.sends(),
          opened: (id) => this.#opened(id),
          askOpenly: (id) => this.#askOpenly(id),
          tokens: (id) => getTokens(this.conversation?.id ?? "", id),
        });
    this.#views.set(message.id, view);
    return view;
  }

  /** @param {string} id @param {string} text @param {object} [params] */
  #editQuestion(id, text, params = {}) {
    return this.#write("say", { conversation: this.conversation?.id ?? null, parent: this.#tree.get(id)?.parent ?? null, text, params }, text);
  }

  /** What was kept on the device stays so; a question to the cloud is another branch. @param {string} id Of an answer. */
  async #askOpenly(id) {
    const question = this.#tree.get(this.#tree.get(id)?.parent ?? "");
    if (question && await this.options.mayAsk()) this.#editQuestion(question.id, question.text, OPENLY);
  }

  /** Whether an answer's question was kept on the device in another branch. @param {string} id */
  #opened(id) {
    const question = this.#tree.get(this.#tree.get(id)?.parent ?? "");
    return !!question && this.#tree.siblings(question).some((other) => other.private && other.text === question.text);
  }

  /** What an answer is to. @param {Message} message */
  questionOf({ parent }) {
    const question = this.#tree.get(parent ?? "");
    return question ? phrased(question.text, question.phrases) : null;
  }

  #shown() {
    return this.#tree.path.map(({ id }) => this.#views.get(id)).filter((view) => view instanceof AnswerView);
  }
}
