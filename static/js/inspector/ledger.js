/** What left the device for an answer, in plain words, from the device's ledger. */

import { ApiError, getLedger, messageOf } from "../core/api.js";
import { byId, el, formatBytes, icon } from "../core/dom.js";
import { number, t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Message} Message */

/** Kinds of frames; the strings say what each carries. */
const KINDS = ["hello", "open", "draft", "target", "join", "resync", "close", "candidate", "correction", "fetch"];

/** @param {Message | null} message An answer @param {string | null} question */
export async function showLedger(message, question) {
  const panel = byId("panel-ledger");
  if (!message || message.state === "writing") {
    panel.replaceChildren(el("p", { class: "empty" }, t(message ? "ledger.writing" : "ledger.empty")));
    return;
  }
  try {
    const entries = await Promise.all((message.ledgers ?? []).map(entryOf));
    const about = question ? [el("p", { class: "hint asked" }, t("quoted", { text: question }))] : [];
    panel.replaceChildren(...about, ...described(together(entries.filter((entry) => entry !== null))));
  } catch (error) {
    panel.replaceChildren(said(t("ledger.unknown"), messageOf(error)));
  }
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
  const left = [...new Set(entries.filter((entry) => entry.frames.length && entry.asked).map(leftFor))].join(". ");
  return { left, frames: entries.flatMap((entry) => entry.frames), bytes: entries.reduce((sum, entry) => sum + entry.bytes, 0), kinds, fivegrams };
}

/** What left the device, in words. @param {any} entry */
function leftFor({ asked, words }) {
  const question = asked === "nothing" ? t("ledger.joint") : t(`ledger.asked.${asked}`);
  if (words === null) return t("ledger.left.lost", { asked: question });
  const quoted = words.map((/** @type {string} */ text) => t("quoted", { text })).join(", ");
  return quoted ? t("ledger.left.words", { asked: question, words: quoted }) : question;
}

/** @param {any} entry */
function described(entry) {
  if (!entry.frames.length) return [said(t("ledger.nothing"), t("ledger.nothing.text"))];
  const { documents, drafts, answer } = entry.fivegrams;
  const rows = Object.entries(entry.kinds).map(([kind, { frames, bytes }]) =>
    el("tr", {}, el("th", { scope: "row" }, kind, el("small", {}, KINDS.includes(kind) ? t(`ledger.${kind}`) : "")), el("td", {}, String(frames)), el("td", {}, number(bytes))),
  );
  return [
    said(`${entry.left || t("ledger.joint")}.`, t("ledger.joint.text")),
    el("p", { class: "hint" }, t(`ledger.runs.${drafts ? "quoted" : answer ? "known" : documents ? "none" : "unread"}`)),
    ...(documents ? [
      el("h3", {}, t("ledger.runs")),
      el("dl", { class: "facts", "data-testid": "fivegrams" },
        el("dt", {}, t("ledger.runs.read")), el("dd", {}, number(documents)),
        el("dt", {}, t("ledger.runs.drafts")), el("dd", {}, number(drafts)),
        el("dt", {}, t("ledger.runs.answer")), el("dd", {}, number(answer))),
    ] : []),
    el("h3", {}, `${t("frames", { count: entry.frames.length })}, ${formatBytes(entry.bytes)}`),
    el("table", { class: "frames" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("ledger.kind")), el("th", { scope: "col" }, t("ledger.frames")), el("th", { scope: "col" }, t("ledger.bytes")))), el("tbody", {}, ...rows)),
    el("a", { class: "button small", href: "/api/ledger/export", download: "" }, icon("icon-document"), t("ledger.export")),
  ];
}

/** @param {string} headline @param {string} text */
function said(headline, text) {
  return el("p", { class: "said" }, el("strong", {}, headline), text);
}
