/** What left the device for an answer, in plain words, from the device's ledger. */

import { ApiError, getLedger, messageOf } from "../core/api.js";
import { byId, el, formatBytes, icon } from "../core/dom.js";
import { number, t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Message} Message */

/** Kinds of frames; the strings say what each carries. */
const KINDS = ["hello", "open", "draft", "target", "join", "resync", "close", "candidate", "correction", "fetch"];

/**
 * What an answer is to.
 *
 * @typedef {object} About
 * @property {string | null} question
 * @property {boolean} follows Whether there are questions before it.
 */

let version = 0;
/** @param {Message | null} message An answer @param {About | null} about */
export async function showLedger(message, about) {
  const panel = byId("panel-ledger");
  const drawing = ++version;
  if (!message || message.state === "writing") {
    panel.replaceChildren(el("p", { class: "empty" }, t(message ? "ledger.writing" : "ledger.empty")));
    return;
  }
  try {
    const left = await leftFor(message.ledgers ?? []);
    // Another answer's has been asked for since.
    if (drawing !== version) return;
    const unfolded = panel.querySelector("details")?.open ?? false;
    panel.replaceChildren(...described(left, about, unfolded));
  } catch (error) {
    if (drawing === version) panel.replaceChildren(said(t("ledger.unknown"), messageOf(error)));
  }
}

/** What left the device for an answer. @param {string[]} ledgers */
export const leftFor = async (ledgers) => together((await Promise.all(ledgers.map(entryOf))).filter((entry) => entry !== null));

/** The ledger's entry, or null for an answer that was refused before it began. @param {string} key */
async function entryOf(key) {
  try {
    return await getLedger(key);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** An answer that was gone on with has an entry for each time. @param {any[]} entries */
function together(entries) {
  /** @type {Record<string, {frames: number, bytes: number}>} */
  const kinds = {};
  const fivegrams = { documents: 0, drafts: 0, answer: 0 };
  for (const entry of entries) {
    for (const [kind, { frames, bytes }] of Object.entries(entry.kinds)) {
      const sum = (kinds[kind] ??= { frames: 0, bytes: 0 });
      sum.frames += frames;
      sum.bytes += bytes;
    }
    for (const name of /** @type {const} */ (["documents", "drafts", "answer"])) {
      fivegrams[name] += entry.fivegrams?.[name] ?? 0;
    }
  }
  const sent = entries.filter((entry) => entry.frames.length);
  // Of an entry from before it was recorded: whatever else it was, a question.
  const asked = [...new Set(sent.map((entry) => entry.asked ?? "question"))].filter((what) => what !== "nothing");
  const words = [...new Set(sent.flatMap((entry) => entry.words ?? []))];
  const given = sent.flatMap((entry) => entry.given ?? []);
  return { asked, given, words, lost: sent.some((entry) => entry.words === null), recorded: sent.every((entry) => entry.given), frames: entries.flatMap((entry) => entry.frames), bytes: entries.reduce((sum, entry) => sum + entry.bytes, 0), kinds, fivegrams };
}

/** What left the device, in words. @param {any} entry @returns {string[]} */
function parts({ asked, given, words, lost, kinds }) {
  const quoted = (/** @type {string[]} */ texts) => [...new Set(texts)].map((text) => t("quoted", { text })).join(", ");
  /** @param {string} kind @returns {string[]} */
  const textsOf = (kind) => given.filter((/** @type {any} */ part) => part.kind === kind && part.text).map((/** @type {any} */ part) => part.text);
  const question = textsOf("question");
  const found = [
    ...asked.map((/** @type {string} */ what) => (what === "question" && question.length ? t("ledger.asked.question.text", { text: question.at(-1) }) : t(`ledger.asked.${what}`))),
    ...["earlier", "instructions", "answers", "tools", "format", "words", "search"].flatMap((kind) => (textsOf(kind).length ? [t(`ledger.given.${kind}`, { words: quoted(textsOf(kind)) })] : [])),
    ...(given.some((/** @type {any} */ part) => part.kind === "answers" && !part.text) ? [t("ledger.given.known")] : []),
    ...(words.length ? [t("ledger.words", { words: quoted(words) })] : []),
    ...(lost ? [t("ledger.words.lost")] : []),
    ...(kinds.draft || kinds.candidate ? [t("leaves.probabilities")] : []),
    ...(asked.length ? [t("sends.settings")] : []),
  ];
  return found.length ? found : [t("ledger.signals")];
}

/** @param {any} entry @param {About | null} about @param {boolean} unfolded Whether its details are to be seen. */
function described(entry, about, unfolded) {
  if (!entry.frames.length) {
    const asked = about?.question ? [el("p", { class: "hint asked" }, t("quoted", { text: about.question }))] : [];
    return [...asked, said(t("ledger.nothing"), t("ledger.nothing.text"))];
  }
  const alone = about?.follows && entry.recorded && !entry.given.some((/** @type {any} */ part) => part.kind === "earlier") ? ` ${t("ledger.chat.none")}` : "";
  const { documents, drafts, answer } = entry.fivegrams;
  const rows = Object.entries(entry.kinds).map(([kind, { frames, bytes }]) =>
    el("tr", {}, el("th", { scope: "row" }, KINDS.includes(kind) ? t(`ledger.${kind}`) : "", el("small", {}, kind)), el("td", {}, String(frames)), el("td", {}, number(bytes))),
  );
  return [
    said(t("ledger.joint"), el("ul", { "data-testid": "sent" }, ...parts(entry).map((part) => el("li", {}, part))), t("ledger.joint.text") + alone),
    el("p", { class: "hint" }, t(`ledger.runs.${drafts ? "quoted" : answer ? "known" : documents ? "none" : "unread"}`)),
    el("details", { class: "details", "data-testid": "ledger-details", open: unfolded },
      el("summary", {}, icon("icon-chevron", "icon chevron"), t("ledger.details")),
      ...(documents ? [
        el("h3", {}, t("ledger.runs")),
        el("dl", { class: "facts", "data-testid": "fivegrams" },
          el("dt", {}, t("ledger.runs.read")), el("dd", {}, number(documents)),
          el("dt", {}, t("ledger.runs.drafts")), el("dd", {}, number(drafts)),
          el("dt", {}, t("ledger.runs.answer")), el("dd", {}, number(answer))),
      ] : []),
      el("h3", {}, `${t("frames", { count: entry.frames.length })}, ${formatBytes(entry.bytes)}`),
      el("table", { class: "frames" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("ledger.kind")), el("th", { scope: "col" }, t("ledger.frames")), el("th", { scope: "col" }, t("ledger.bytes")))), el("tbody", {}, ...rows)),
      el("a", { class: "button small", href: "/api/ledger/export", download: "" }, icon("icon-document"), t("ledger.export"))),
  ];
}

/** @param {string} headline @param {(Node | string)[]} more */
function said(headline, ...more) {
  return el("div", { class: "said" }, el("strong", {}, headline), ...more);
}
