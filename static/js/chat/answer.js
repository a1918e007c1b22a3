/** One answer: its blocks as they are written, what can be done with it, its sources. */

import { read, readable, reading, stopReading } from "./aloud.js";
import { openPreview } from "../documents/preview.js";
import { cite, uncite } from "./citations.js";
import { announce, el, icon } from "../core/dom.js";
import { leftFor } from "../inspector/ledger.js";
import { branchSwitch, button, menuButton, nameTables, redraw, tool } from "../core/controls.js";
import { learnPace } from "../core/paces.js";
import { locale, localized, looksEnglish, phrased, t } from "../core/strings.js";
import { SourcesView } from "./sources.js";
import { said, Thoughts } from "./thoughts.js";
import { tabulate, untabulate, withTabs } from "./rows.js";
import { Waiting } from "./waiting.js";

/** @typedef {import("../core/types.js").Message} Message */
/** @typedef {import("../core/types.js").Problem} Problem */
/** @typedef {import("../core/types.js").TokenDetail} TokenDetail */

/** Milliseconds of a frame that blocks are made in; the browser needs the rest to draw them. */
const AT_ONCE_MS = 8;
/** Words of an answer, at least, that say how fast its model writes. */
const PACED = 5;

/**
 * What the conversation does for its answers.
 *
 * @typedef {object} AnswerActions
 * @property {(id: string, params?: object) => void} again
 * @property {(id: string) => void} otherPassage An answer from passages that were not quoted yet.
 * @property {(message: Message) => string} question
 * @property {(id: string) => boolean} repeats Whether an earlier answer to the question has the same text.
 * @property {() => boolean} quotes Whether the model can only quote.
 * @property {(id: string) => void} goOn
 * @property {(id: string, step: number) => void} branch
 * @property {(id: string) => void} inspect
 * @property {() => void} edit
 * @property {(id: string) => void} askOpenly The question once more, to the cloud, too.
 * @property {(shown?: boolean) => string} sends What the cloud gets with a question, in words.
 * @property {(id: string) => boolean} opened Whether the question was kept on the device in another branch.
 * @property {() => boolean} hasDocuments Whether there are documents.
 * @property {() => void} add Documents.
 * @property {() => boolean} reachable Whether the cloud is.
 * @property {(id: string) => Promise<TokenDetail[]>} tokens
 */

export class AnswerView {
  #wait = new Waiting();
  #body = el("div", { class: "text markdown", "data-testid": "answer-text" });
  #thoughts = new Thoughts(this.#body);
  #problem = el("div", { class: "problem", role: "alert", hidden: true });
  #note = el("div", { class: "note", hidden: true });
  #tools = el("div", { class: "tools", role: "group", "aria-label": t("answer") });
  #summary = el("button", { class: "summary", type: "button", "data-testid": "summary" });
  #foot = el("div", { class: "foot", hidden: true }, this.#tools, this.#summary);
  #sources = new SourcesView();
  /** Passages that it rests on. @type {import("../core/types.js").Source[]} */
  #used = [];
  /** Blocks that have come but are not on the page yet, by index. @type {Map<number, any>} */
  #coming = new Map();
  #frame = 0;
  #branches = { at: 0, of: 1 };
  /** How many words the cloud was sent beside the question; null: not known, or not the question. @type {number | null} */
  #sent = null;
  /** Tokens and milliseconds so far. */
  progress = { tokens: 0, ms: 0 };
  /** Holds everything; `data-state` is one of `Message["state"]`, `streaming` while it is written. */
  element = el(
    "article",
    { class: "answer", "data-testid": "answer", "aria-label": t("answer") },
    this.#thoughts.element, this.#body, this.#wait.element, this.#problem, this.#note, this.#foot, this.#sources.element,
  );

  /** @param {Message} message @param {AnswerActions} actions */
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.#summary.addEventListener("click", () => actions.inspect(message.id));
    this.#body.addEventListener("click", (event) => this.#copyCode(event));
    this.show(message);
  }

  /** Shows what is stored of it. @param {Message} message */
  show(message) {
    this.message = message;
    this.#body.replaceChildren(...message.blocks.map((block) => this.#filled(el("div", { class: "block" }), block)));
    this.#setState();
    if (message.state === "writing") return;
    this.#cite();
    this.#end();
  }

  /** Marks what it rests on, and lists that as its sources. */
  #cite() {
    const { sources = [], closest = [] } = this.message;
    this.#thoughts.fold(false);
    untabulate(this.#body);
    this.#used = cite(this.#body, sources, (source) => {
      if (source.side === "private") openPreview(source.id, source.title, source);
      else this.#sources.unfold(source);
    });
    tabulate(this.#body, sources);
    this.#sources.show(this.#used, sources, closest);
  }

  get writing() {
    return this.message.state === "writing";
  }

  /** Takes a frame; the page changes once a frame of the screen, however fast blocks come. @param {any} frame */
  receive(frame) {
    if (frame.type === "block") {
      this.#coming.set(frame.index, frame);
      this.progress = { tokens: frame.tokens, ms: frame.ms };
      this.#schedule();
    } else if (frame.type === "sources") {
      this.message.sources = frame.sources;
      this.message.closest = frame.closest;
      this.message.nothing_relevant = frame.nothing_relevant;
      this.message.hasDocuments = this.actions.hasDocuments();
      this.message.unread_documents = frame.unread_documents;
      const count = frame.sources.length;
      this.#wait.begin(count ? "reading" : "writing", count ? t("answer.reading", { count }) : t("answer.writing"));
    } else if (frame.type === "peer") {
      this.message.away = frame.joint || !frame.localizable ? undefined : frame.reason;
      this.#localizable({ away: frame.localizable?.reason });
      if (frame.unsearched) this.message.unsearched = frame.unsearched;
      announce(t(frame.joint ? "answer.joined" : "answer.alone"));
    } else if (frame.type === "done" || frame.type === "error") {
      this.#flush(true);
      if (frame.type === "done") this.message.done = frame;
      this.message.ledgers = frame.ledgers;
      this.message.phrases = frame.phrases;
      this.message.state = frame.type === "error" ? "error" : frame.finish_reason === "cancelled" ? "stopped" : "done";
      this.message.error = frame.error;
      this.#localizable(frame.localizable);
      this.message.asked = frame.dragon?.asked ?? this.message.asked;
      this.message.text = [...this.#body.children].map((block) => /** @type {any} */ (block).source).join("");
      if (this.message.state === "done") this.#learnPace(frame);
      this.#setState();
      this.#cite();
      this.#end();
      announce(t(`answer.${this.message.state}`));
    }
  }

  /** How fast the model wrote, unless it was a word or two, went on with a text, or is the device's own phrase. @param {import("../core/types.js").Done} done */
  #learnPace({ usage, dragon }) {
    const words = this.message.text.split(/\s+/).filter(Boolean).length;
    const seconds = (dragon.ms_per_token * usage.completion_tokens) / 1000;
    if (words >= PACED && seconds > 0 && this.message.ledgers?.length === 1 && !this.message.phrases?.length) learnPace(dragon.asked.model, words / seconds);
  }

  /** It is written on: the end of its text is open again. @param {Message} message */
  reopen({ private: kept, private_from }) {
    Object.assign(this.message, { private: kept, private_from, state: "writing" });
    untabulate(this.#body);
    uncite(this.#body);
    this.#setState();
  }

  /** @param {number} at Which branch this is, from 0 @param {number} of How many there are */
  setBranches(at, of) {
    this.#branches = { at, of };
    this.#drawTools();
  }

  /** Its text once more, without what stands in it to be pressed. @returns {Node[]} */
  copied() {
    return [...this.#body.children].map((block) => {
      const { source, start } = /** @type {any} */ (block);
      const copy = /** @type {HTMLElement} */ (block.cloneNode(true));
      untabulate(copy);
      uncite(copy);
      for (const button of copy.querySelectorAll(".copy-code")) button.remove();
      return Object.assign(copy, { source, start });
    });
  }

  /** Where each word of it came from. */
  tokens() {
    return this.actions.tokens(this.message.id);
  }

  /** There are documents now, or no more. */
  documentsChanged() {
    if (!this.writing) this.#end();
  }

  copy() {
    navigator.clipboard.writeText(withTabs(this.#body) || said(phrased(this.message.text, this.message.phrases)).trim()).then(() => this.#copied(this.#tools.querySelector("[data-testid=copy]")));
  }

  /** Frees what lives outside of the element. */
  remove() {
    cancelAnimationFrame(this.#frame);
    this.element.remove();
  }

  #schedule() {
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#flush(false));
  }

  /** Puts what has come on the page, for as long as a frame of the screen has room. @param {boolean} all Whatever it takes. */
  #flush(all) {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const until = performance.now() + AT_ONCE_MS;
    for (const [index, block] of [...this.#coming].sort(([a], [b]) => a - b)) {
      if (!all && performance.now() > until) break;
      this.#coming.delete(index);
      const known = this.#body.children[index];
      const element = this.#filled(/** @type {HTMLElement} */ (known ?? el("div", { class: "block" })), block);
      if (!known) this.#body.append(element);
      element.classList.toggle("is-open", block.open);
    }
    this.#thoughts.fold(this.writing);
    if (this.#coming.size) this.#schedule();
    if (this.#body.childElementCount) this.#wait.done();
  }

  /** @param {HTMLElement} element @param {any} block */
  #filled(element, block) {
    const held = /** @type {any} */ (element);
    // Only the end has grown since: nothing that is there need be made anew.
    if (held.html !== block.html) {
      element.innerHTML = block.html;
      for (const head of element.querySelectorAll(".code-head")) {
        head.append(el("button", { class: "copy-code", type: "button", "data-testid": "copy-code" }, t("answer.copy")));
      }
      for (const seam of /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll(".seam"))) {
        seam.textContent = t(seam.dataset.joint === "true" ? "answer.joined" : "answer.alone");
      }
      nameTables(element);
      for (const phrase of /** @type {NodeListOf<HTMLElement>} */ (element.querySelectorAll(".phrase"))) {
        phrase.textContent = t(`phrase.${phrase.dataset.phrase}`);
      }
      held.html = block.html;
      held.tail = null;
    }
    if (block.tail) {
      if (!held.tail) element.append(el("span", { class: "tail" }, (held.tail = document.createTextNode(""))));
      held.tail.appendData(block.tail.slice(held.tail.length));
    }
    held.source = block.text;
    held.start = block.start;
    return element;
  }

  #setState() {
    const { state } = this.message;
    this.element.dataset.state = state === "writing" ? "streaming" : state;
    this.element.dataset.id = this.message.id;
    this.element.setAttribute("aria-busy", String(this.writing));
    if (!this.writing) this.#wait.stop();
    else if (!this.#body.childElementCount) this.#wait.begin("searching", t("answer.searching"));
    this.#foot.hidden = this.writing;
    this.#problem.hidden = state !== "error";
  }

  #end() {
    const { error, localizable, asked, unsearched, unread_documents: unread } = this.message;
    for (const block of this.#body.querySelectorAll(".is-open")) block.classList.remove("is-open");
    if (error) {
      // Earlier turns are left out where they do not fit, so then it is the question that is too long.
      const full = error.code === "context_length_exceeded";
      const remedy = button(t(full ? "answer.shorten" : "answer.retry"), "remedy", () => (full ? this.actions.edit() : this.actions.again(this.message.id)));
      this.#problem.replaceChildren(icon("icon-warning"), el("p", {}, localized({ ...error, localizable }, "message")), remedy);
    }
    const missed = this.message.nothing_relevant && !unread && this.message.done && !this.#public;
    const sent = this.message.done?.dragon.sent_frames > 0;
    const away = this.#joint ? "" : localized(this.message, "away");
    // Redacted answers are alike for another reason.
    const gone = (this.message.sources ?? []).some(({ text }) => !text);
    const repeated = this.message.done && !missed && !gone && this.actions.repeats(this.message.id);
    this.#note.replaceChildren(el("p", {}, [
      asked?.left_out && t("answer.left_out", { count: asked.left_out }),
      missed && this.#missing(sent && !away),
      missed && this.#foreign && t("answer.foreign"),
      away && t("answer.away", { reason: away }),
      unsearched && t("answer.unsearched"),
      unread && t("answer.unread", { count: unread }),
      repeated && t(this.actions.quotes() ? "answer.same.quotes" : "answer.same"),
      sent && this.actions.opened(this.message.id) && t("answer.opened"),
    ].filter(Boolean).join(" ")));
    if (repeated && this.actions.quotes()) this.#offer("", "answer.other", "other-passage", () => this.actions.otherPassage(this.message.id));
    if (missed && !this.actions.hasDocuments()) this.#offer("", "documents.add", "add-documents", () => this.actions.add());
    if (missed && (away || !sent) && this.actions.reachable()) {
      this.#offer(away ? "" : t("answer.offer.question", { what: this.actions.sends() }), away ? "answer.retry" : "answer.ask", "ask-cloud", () => this.actions.askOpenly(this.message.id));
    }
    this.#note.hidden = !this.#note.textContent;
    this.#drawSummary();
    this.#drawTools();
    this.#count();
  }

  /** Asks the ledger how much went to the cloud for what was written with it. */
  async #count() {
    const { ledgers = [] } = this.message;
    if (!this.#joint || this.message.private || !ledgers.length) return;
    const left = await leftFor(ledgers).catch(() => null);
    this.#sent = left?.asked.includes("question") && !left.lost ? left.words.join(" ").split(/\s+/).filter(Boolean).length : null;
    this.#drawSummary();
  }

  #drawSummary() {
    const cloud = !this.message.private && (this.#joint > 0 || this.message.done?.dragon.sent_frames > 0);
    this.#summary.replaceChildren(icon(cloud ? "icon-public" : "icon-private"), this.#summarized());
    this.#summary.dataset.side = cloud ? "public" : "private";
  }

  /** What to say where no document answers. @param {boolean} both Whether the public ones were searched, too. */
  #missing(both) {
    const { text, phrases = [] } = this.message;
    const why = this.#reason();
    const declined = phrases.some(([, , phrase]) => phrase === "no_answer");
    // That its words are the model's own must not look like an answer from somewhere.
    if (text.trim() && !declined) return t("answer.unfounded");
    // The text itself says that the documents do not.
    return declined && why === "nothing" && !both ? "" : t(`answer.${why}${both ? ".both" : ""}`);
  }

  /** Whether English documents are asked in another language, by which little is found in them. */
  get #foreign() {
    return !locale.startsWith("en") && !looksEnglish(this.actions.question(this.message)) && (this.message.closest ?? []).some(({ text }) => looksEnglish(text));
  }

  /** Why none of the person's documents answers: which of the words say it. */
  #reason() {
    if (this.message.hasDocuments === false && !this.actions.hasDocuments()) return "none";
    if (this.message.asked?.documents?.length === 0) return "unchosen";
    // Without a passage that came near there was none to be searched, or it has been deleted.
    return this.message.closest?.length ? "nothing" : "nothing.then";
  }

  /** More of its fields can be said in other languages. @param {object} [more] */
  #localizable(more) {
    this.message.localizable = { ...this.message.localizable, ...more };
  }

  /** Tokens that both sides wrote. */
  get #joint() {
    const { participation = [] } = this.message.done?.dragon ?? {};
    return participation.reduce((/** @type {number} */ sum, /** @type {number[]} */ [from = 0, to = 0]) => sum + to - from, 0);
  }

  /** Whether the cloud found something for it. */
  get #public() {
    return (this.message.sources ?? []).some(({ side }) => side === "public");
  }

  /** Another way to an answer, below this one. @param {string} why @param {string} label @param {string} testid @param {() => void} act */
  #offer(why, label, testid, act) {
    this.#note.append(el("div", { class: "offer" }, why, button(t(label), testid, act)));
  }

  /** Where it comes from, and whether that is all; the panel that it opens says the rest. */
  #summarized() {
    const { done, state } = this.message;
    if (!done) return t(state === "stopped" ? "answer.by.stopped" : "panel.ledger");
    const authors = this.#authors(done);
    const said = authors === "cloud" && this.#sent !== null ? t(this.#sent ? "answer.by.words" : "answer.by.question", { count: this.#sent }) : t(`answer.by.${authors}`);
    return done.finish_reason === "length" ? `${said} · ${t("answer.cut")}` : said;
  }

  /** Which of the words say where it comes from. @param {NonNullable<Message["done"]>} done */
  #authors({ dragon }) {
    const { private: kept, private_from, state, phrases } = this.message;
    if (kept) return private_from === undefined ? "kept" : "begun";
    if (state === "stopped") return "stopped";
    if (!this.#joint) return dragon.sent_frames > 0 ? "asked" : this.#used.length ? "alone" : "nothing";
    return phrases?.some(([, , phrase]) => phrase === "no_answer") ? "vain" : "cloud";
  }

  #drawTools() {
    const { id, state, text, done } = this.message;
    const { at, of } = this.#branches;
    const tools = [];
    if (of > 1) tools.push(branchSwitch(at, of, (step) => this.actions.branch(id, step)));
    if (text) tools.push(tool("icon-copy", t("answer.copy"), "copy", () => this.copy()));
    tools.push(tool("icon-again", t("answer.again"), "again", () => this.actions.again(id)));
    if (text && (state === "stopped" || done?.finish_reason === "length")) tools.push(tool("icon-continue", t("answer.continue"), "continue", () => this.actions.goOn(id)));
    tools.push(menuButton(t("answer.more"), "more", () => this.#more()));
    redraw(this.#tools, ...tools);
  }

  #more() {
    const aloud = reading()
      ? { label: t("answer.hush"), icon: "icon-stop", testid: "hush", act: stopReading }
      : { label: t("answer.aloud"), icon: "icon-chats", testid: "aloud", act: () => read(this.#spoken()) };
    const paper = { label: t("answer.print"), icon: "icon-document", testid: "print", act: () => print() };
    return [...(readable() && this.message.text ? [aloud] : []), paper];
  }

  /** Its text by paragraphs, without what was thought before it. */
  #spoken() {
    return this.copied().map((block) => {
      const copy = /** @type {HTMLElement} */ (block);
      for (const beside of copy.querySelectorAll(".thought, .seam, .code-head")) beside.remove();
      return copy.matches(".thought") ? "" : copy.textContent?.trim() ?? "";
    }).filter(Boolean);
  }

  /** @param {Event} event */
  #copyCode(event) {
    const pressed = /** @type {HTMLElement} */ (event.target).closest(".copy-code");
    const code = pressed?.closest(".code")?.querySelector("code");
    if (pressed && code) navigator.clipboard.writeText(code.textContent ?? "").then(() => this.#copied(pressed));
  }

  /** @param {Element | null} pressed */
  #copied(pressed) {
    announce(t("answer.copied"));
    pressed?.classList.add("is-done");
    setTimeout(() => pressed?.classList.remove("is-done"), 1500);
  }
}
