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
 * @property {{question: string, ledgers: string[]}[]} earlier The questions before it, with their answers' ids in the ledger.
 * @property {boolean} instructed Whether it is of a project, whose instruction the model follows.
 */

let version = 0;
/** Whether the cloud was asked for earlier answers, by their ids in the ledger. @type {Map<string, boolean>} */
const known = new Map();

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
    const earlier = left.frames.length ? about?.earlier ?? [] : [];
    const before = await Promise.all(earlier.map(({ ledgers }) => wasAsked(ledgers)));
    const asked = earlier.filter((_, turn) => before[turn]).map(({ question }) => question);
    // Another answer's has been asked for since.
    if (drawing !== version) return;
    const unfolded = panel.querySelector("details")?.open ?? false;
    panel.replaceChildren(...described(left, about, asked, unfolded));
  } catch (error) {
    if (drawing === version) panel.replaceChildren(said(t("ledger.unknown"), messageOf(error)));
  }
}

/** What left the device for an answer. @param {string[]} ledgers */
const leftFor = async (ledgers) => together((await Promise.all(ledgers.map(entryOf))).filter((entry) => entry !== null));

/** Whether the cloud was asked for an answer that is finished. @param {string[]} ledgers */
async function wasAsked(ledgers) {
  const key = ledgers.join();
  if (!known.has(key)) known.set(key, (await leftFor(ledgers)).asked.length > 0);
  return known.get(key);
}

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
  return { asked, words, lost: sent.some((entry) => entry.words === null), frames: entries.flatMap((entry) => entry.frames), bytes: entries.reduce((sum, entry) => sum + entry.bytes, 0), kinds, fivegrams };
}

/** What left the device, in words. @param {any} entry @param {About | null} about @param {string[]} before The earlier questions that the cloud was asked. @returns {string[]} */
function parts({ asked, words, lost, kinds }, about, before) {
  const quoted = words.map((/** @type {string} */ text) => t("quoted", { text }));
  const found = [
    ...asked.map((/** @type {string} */ what) => (what === "question" && about?.question ? t("ledger.asked.question.text", { text: about.question }) : t(`ledger.asked.${what}`))),
    ...(asked.length && before.length ? [t("ledger.chat", { questions: before.map((text) => t("quoted", { text })).join(", ") })] : []),
    ...(asked.length && about?.instructed ? [t("ledger.instruction")] : []),
    ...(quoted.length ? [t("ledger.words", { words: quoted.join(", ") })] : []),
    ...(lost ? [t("ledger.words.lost")] : []),
    ...(kinds.draft || kinds.candidate ? [t("leaves.probabilities")] : []),
    ...(asked.length ? [t("sends.settings")] : []),
  ];
  return found.length ? found : [t("ledger.signals")];
}

/** @param {any} entry @param {About | null} about @param {string[]} before As in `parts`. @param {boolean} unfolded Whether its details are to be seen. */
function described(entry, about, before, unfolded) {
  if (!entry.frames.length) {
    const asked = about?.question ? [el("p", { class: "hint asked" }, t("quoted", { text: about.question }))] : [];
    return [...asked, said(t("ledger.nothing"), t("ledger.nothing.text"))];
  }
  const alone = about?.earlier.length && !before.length ? ` ${t("ledger.chat.none")}` : "";
  const { documents, drafts, answer } = entry.fivegrams;
  const rows = Object.entries(entry.kinds).map(([kind, { frames, bytes }]) =>
    el("tr", {}, el("th", { scope: "row" }, KINDS.includes(kind) ? t(`ledger.${kind}`) : "", el("small", {}, kind)), el("td", {}, String(frames)), el("td", {}, number(bytes))),
  );
  return [
    said(t("ledger.joint"), el("ul", { "data-testid": "sent" }, ...parts(entry, about, before).map((part) => el("li", {}, part))), t("ledger.joint.text") + alone),
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
