/** Who wrote what: the text of an answer once more, each word in the colour of its side, with a card on hover and by the arrow keys. */

import { place } from "../core/controls.js";
import { byId, el, textsOf } from "../core/dom.js";
import { number, t } from "../core/strings.js";

/** @typedef {import("../chat/answer.js").AnswerView} AnswerView */
/** @typedef {import("../core/types.js").TokenDetail} TokenDetail */
/** @typedef {import("../core/types.js").Source} Source */
/** @typedef {{range: Range, text: string, cloud: number, documents: number[], tv: number}} Word */

/** Upper bounds of the cloud's share at each shade, from the device's to the cloud's. */
const SHADES = [0.1, 0.35, 0.65, 0.9, 1];
/** Distance between the two sides' distributions from which on they disagreed strongly. */
const DISPUTED = 0.75;
/** Neither side wrote these: a phrase of the device's own, such as a refusal, is nobody's. */
const SKIPPED = ".seam, .code-head, .phrase";

/** Ranges of all answers by name; the page's styles colour them. @type {Map<string, Highlight>} */
const highlights = new Map();
for (const name of [...SHADES.map((_, level) => `cloud-${level}`), "disputed", "chosen"]) {
  const highlight = new Highlight();
  highlights.set(name, highlight);
  CSS.highlights.set(name, highlight);
}

/** @type {Provenance | null} */
let shown = null;
let drawn = "";

/** @param {AnswerView | null} view */
export async function showWho(view) {
  const panel = byId("panel-who");
  if (!view || view.writing) {
    hideWho();
    panel.replaceChildren(el("p", { class: "empty" }, t(view ? "ledger.writing" : "live.empty")));
    return;
  }
  // What is read or hovered over stays, whatever else on the page changes.
  const { id, text, phrases = [], asked, sources = [] } = view.message;
  const now = `${id} ${text}`;
  if (drawn === now) return;
  hideWho();
  drawn = now;
  const tokens = await view.tokens().catch(() => []);
  // Another answer's has been asked for since.
  if (drawn !== now) return;
  const body = el("div", { class: "text markdown", "data-testid": "who-text" }, ...view.copied());
  const legend = el("div", { class: "legend", "data-testid": "legend" });
  panel.replaceChildren(legend, body);
  shown = new Provenance(body);
  shown.show(tokens, sources);
  legend.replaceChildren(...shown.legend(phrases.length > 0, asked?.model));
}

/** Also frees what lives outside of the panel. */
export function hideWho() {
  shown?.hide();
  shown = null;
  drawn = "";
}

class Provenance {
  /** @type {Word[]} */
  #words = [];
  /** @type {Map<Node, Word[]>} */
  #byNode = new Map();
  /** @type {Source[]} */
  #sources = [];
  #at = -1;
  #card = byId("card");

  /** @param {HTMLElement} body Holds the answer's blocks. */
  constructor(body) {
    this.body = body;
    body.addEventListener("pointermove", (event) => this.#hover(event));
    body.addEventListener("pointerleave", () => this.#choose(-1));
    body.addEventListener("blur", () => this.#choose(-1));
    body.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step || !this.#words.length) return;
      event.preventDefault();
      this.#choose(Math.max(0, Math.min(this.#words.length - 1, this.#at + step)));
    });
  }

  /** @param {TokenDetail[]} tokens @param {Source[]} sources */
  show(tokens, sources) {
    this.hide();
    this.#sources = sources;
    for (const block of this.body.children) this.#words.push(...words(/** @type {any} */ (block), tokens));
    for (const word of this.#words) {
      highlights.get(`cloud-${SHADES.findIndex((bound) => word.cloud <= bound)}`)?.add(word.range);
      if (word.tv >= DISPUTED) highlights.get("disputed")?.add(word.range);
      const node = word.range.startContainer;
      this.#byNode.set(node, [...(this.#byNode.get(node) ?? []), word]);
    }
    if (!this.#words.length) return;
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "group");
    this.body.setAttribute("aria-label", t("who.label"));
  }

  hide() {
    this.#choose(-1);
    for (const { range } of this.#words) for (const highlight of highlights.values()) highlight.delete(range);
    this.#words = [];
    this.#byNode.clear();
    for (const name of ["tabindex", "role", "aria-label"]) this.body.removeAttribute(name);
  }

  /** What the shades mean, and what of the answer came from where. @param {boolean} phrased Whether it has phrases of the device's own. @param {string} [model] That wrote it. */
  legend(phrased, model) {
    const by = model ? [el("span", { "data-testid": "answer-model" }, t("who.model", { name: model }))] : [];
    if (!this.#words.length) return [...by, t(phrased ? "who.own" : "who.unknown")];
    const letters = this.#words.reduce((sum, { text }) => sum + text.length, 0);
    const cloud = this.#words.reduce((sum, word) => sum + word.cloud * word.text.length, 0) / letters;
    const percent = Math.round(100 * cloud);
    const disputed = this.#words.filter(({ tv }) => tv >= DISPUTED).length;
    return [
      el("span", { class: "legend-scale" }, t("who.scale.device"), ...SHADES.map((_, level) => el("span", { class: `swatch swatch-${level}`, title: t(`who.${level}`) })), t("who.scale.cloud")),
      ...(disputed ? [el("span", {}, el("span", { class: "wavy" }, t("who.word")), t("who.disputed", { count: disputed }))] : []),
      ...(percent ? [el("span", { "data-testid": "cloud-share" }, t("who.total", { percent }))] : []),
      ...by,
    ];
  }

  /** @param {PointerEvent} event */
  #hover(event) {
    if (!this.#words.length) return;
    const at = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const word = at && this.#byNode.get(at.offsetNode)?.find(({ range }) => at.offset >= range.startOffset && at.offset <= range.endOffset);
    this.#choose(word ? this.#words.indexOf(word) : -1);
  }

  /** @param {number} index */
  #choose(index) {
    if (index === this.#at) return;
    this.#at = index;
    highlights.get("chosen")?.clear();
    const word = this.#words[index];
    this.#card.hidden = !word;
    if (!word) return;
    highlights.get("chosen")?.add(word.range);
    this.#card.replaceChildren(...this.#describe(word));
    place(this.#card, /** @type {any} */ (word.range));
  }

  /** @param {Word} word */
  #describe(word) {
    const percent = Math.round(100 * word.cloud);
    const level = SHADES.findIndex((bound) => word.cloud <= bound);
    const shares = this.#sources
      .map((source, index) => ({ source, share: word.documents[index] ?? 0 }))
      .filter(({ share }) => share >= 0.01)
      .sort((a, b) => b.share - a.share)
      .slice(0, 3);
    const device = el("span", { class: "share-device" });
    device.style.width = `${100 - percent}%`;
    return [
      el("p", { class: "card-word" }, el("strong", {}, word.text), t("who.from", { who: t(`who.${level}`) })),
      el("div", { class: "share" }, device),
      el("p", { class: "card-sides" }, el("span", {}, t("who.device", { percent: 100 - percent })), el("span", {}, t("who.cloud", { percent }))),
      el("ul", {}, ...shares.map(({ source, share }) => el("li", { "data-side": source.side }, el("span", {}, source.title), `${Math.round(100 * share)} %`))),
      ...(word.tv >= DISPUTED ? [el("p", { class: "card-note" }, t("who.disputed.here", { distance: number(word.tv, 2) }))] : []),
    ];
  }
}

/**
 * The words of a block as they are shown, with what their characters' tokens say. The shown text is
 * the block's Markdown with some characters left out, so each is looked for from the last one on.
 *
 * @param {HTMLElement & {source: string, start: number}} block
 * @param {TokenDetail[]} tokens
 * @returns {Word[]}
 */
function words(block, tokens) {
  const source = [...block.source];
  const inside = tokens.filter(({ start, end, cloud }) => cloud !== null && end > block.start && start < block.start + source.length);
  /** @type {Word[]} */
  const found = [];
  let at = 0;
  let token = 0;
  for (const node of textsOf(block)) {
    if (node.parentElement?.closest(SKIPPED)) continue;
    for (const match of node.data.matchAll(/\S+/gu)) {
      /** @type {TokenDetail[]} */
      const letters = [];
      for (const character of match[0]) {
        const next = source.indexOf(character, at);
        if (next < 0) continue;
        at = next + 1;
        while (token < inside.length - 1 && /** @type {TokenDetail} */ (inside[token]).end <= block.start + next) token++;
        const here = inside[token];
        if (here && here.start <= block.start + next && block.start + next < here.end) letters.push(here);
      }
      if (letters.length) found.push(word(node, match.index, match[0], letters));
    }
  }
  return found;
}

/** @param {Text} node @param {number} offset @param {string} text @param {TokenDetail[]} letters */
function word(node, offset, text, letters) {
  const range = new Range();
  range.setStart(node, offset);
  range.setEnd(node, offset + text.length);
  const mean = (/** @type {(letter: TokenDetail) => number} */ of) => letters.reduce((sum, letter) => sum + of(letter), 0) / letters.length;
  const documents = (letters[0]?.documents ?? []).map((_, index) => mean((letter) => letter.documents[index] ?? 0));
  return { range, text, cloud: mean(({ cloud }) => cloud ?? 0), documents, tv: Math.max(...letters.map(({ tv }) => tv ?? 0)) };
}
