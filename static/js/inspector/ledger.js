/** What left the device for an answer, in plain words, from the device's ledger. */

import { ApiError, getLedger, messageOf } from "../core/api.js";
import { byId, el, formatBytes, icon, plural } from "../core/dom.js";

/** @typedef {import("../core/types.js").Message} Message */

/** What a kind of frame carries. */
const KINDS = {
  hello: "who this device is: model and fingerprints",
  open: "the conversation as tokens, the question, how to sample",
  draft: "next-word probabilities with a proposed word",
  target: "a word that was decided on",
  join: "words that the cloud had missed",
  resync: "asking to agree on the text again",
  close: "the end of the answer",
  candidate: "a whole answer, and how likely it is",
  correction: "how far the text has come, and words where the cloud guessed another",
  fetch: "asking for public documents",
};

/** @param {Message | null} message */
export async function showLedger(message) {
  const panel = byId("panel-ledger");
  if (!message || message.state === "writing") {
    panel.replaceChildren(el("p", { class: "empty" }, message ? "The answer is being written." : "Ask something: here is what left this device for the answer."));
    return;
  }
  try {
    const entries = await Promise.all((message.ledgers ?? []).map(entryOf));
    panel.replaceChildren(...described(together(entries.filter((entry) => entry !== null))));
  } catch (error) {
    panel.replaceChildren(said("Not known.", messageOf(error)));
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
  const left = [...new Set(entries.filter((entry) => entry.frames.length).map((entry) => entry.left))].filter(Boolean).join(". ");
  return { left, frames: entries.flatMap((entry) => entry.frames), bytes: entries.reduce((sum, entry) => sum + entry.bytes, 0), kinds, fivegrams };
}

/** @param {any} entry */
function described(entry) {
  if (!entry.frames.length) return [said("Nothing left this device.", "The cloud took no part in the answer.")];
  const { documents, drafts, answer } = entry.fivegrams;
  const rows = Object.entries(entry.kinds).map(([kind, { frames, bytes }]) =>
    el("tr", {}, el("th", { scope: "row" }, kind, el("small", {}, KINDS[/** @type {keyof typeof KINDS} */ (kind)] ?? "")), el("td", {}, String(frames)), el("td", {}, formatBytes(bytes))),
  );
  return [
    said(`${entry.left || "The cloud took part"}.`, "Your documents stay here. Of the answer the cloud knows, besides what it was sent, what it guessed rightly."),
    el("h3", {}, "Runs of your documents in it"),
    el("dl", { class: "facts", "data-testid": "fivegrams" },
      el("dt", {}, "Runs of five tokens in the documents it read"), el("dd", {}, documents.toLocaleString("en")),
      el("dt", {}, "of them in drafts that were sent"), el("dd", {}, drafts.toLocaleString("en")),
      el("dt", {}, "of them in the part of the answer that the cloud knows"), el("dd", {}, answer.toLocaleString("en"))),
    el("p", { class: "hint" }, drafts
      ? "Words that the answer quotes from your documents went to the cloud with it. A draft that was not used may quote a document, too."
      : answer ? "Words that the answer quotes from your documents are known to the cloud." : "The cloud knows no run of five tokens of your documents."),
    el("h3", {}, `${plural(entry.frames.length, "frame")}, ${formatBytes(entry.bytes)}`),
    el("table", { class: "frames" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Kind"), el("th", { scope: "col" }, "Frames"), el("th", { scope: "col" }, "Bytes"))), el("tbody", {}, ...rows)),
    el("a", { class: "button small", href: "/api/ledger/export", download: "" }, icon("icon-document"), "Export the whole ledger"),
  ];
}

/** @param {string} headline @param {string} text */
function said(headline, text) {
  return el("p", { class: "said" }, el("strong", {}, headline), text);
}
