/** What left the device for an answer, in plain words, from the device's ledger. */

import { ApiError, getLedger, messageOf } from "./api.js";
import { byId, el, formatBytes, icon, plural } from "./dom.js";

/** @typedef {import("./types.js").Message} Message */

/** What a kind of frame carries. */
const KINDS = {
  hello: "who this device is: model and fingerprints",
  open: "the conversation as tokens, the question, how to sample",
  draft: "next-word probabilities with a proposed word",
  target: "a word that was decided on",
  join: "words that the cloud had missed",
  resync: "asking to agree on the text again",
  close: "the end of the answer",
  score: "how likely a whole answer is",
  fetch: "asking for public documents",
};

/** @param {Message | null} message */
export async function showLedger(message) {
  const panel = byId("panel-ledger");
  if (!message || message.state === "writing") {
    panel.replaceChildren(el("p", { class: "empty" }, message ? "The answer is being written." : "Ask something: here is what left this device for the answer."));
    return;
  }
  const key = message.done?.ledger;
  if (message.private) {
    panel.replaceChildren(said("Nothing left this device.", "The question was private: the cloud took no part in the answer."));
    return;
  }
  if (!key) {
    panel.replaceChildren(said("Not noted.", "There is no entry for this answer in the ledger of this device."));
    return;
  }
  try {
    const entry = await getLedger(key);
    panel.replaceChildren(...described(entry));
  } catch (error) {
    const missing = error instanceof ApiError && error.status === 404;
    panel.replaceChildren(said("Not noted.", missing ? "There is no entry for this answer in the ledger of this device." : messageOf(error)));
  }
}

/** @param {any} entry */
function described(entry) {
  if (!entry.frames.length) return [said("Nothing left this device.", "The cloud took no part in the answer.")];
  const { documents, drafts, answer } = entry.fivegrams ?? { documents: 0, drafts: 0, answer: 0 };
  const rows = Object.entries(entry.kinds).map(([kind, { frames, bytes }]) =>
    el("tr", {}, el("th", { scope: "row" }, kind, el("small", {}, KINDS[/** @type {keyof typeof KINDS} */ (kind)] ?? "")), el("td", {}, String(frames)), el("td", {}, formatBytes(bytes))),
  );
  return [
    said(`${plural(entry.frames.length, "frame")}, ${formatBytes(entry.bytes)}`, "went to the cloud for this answer. No document, no passage, no file name."),
    el("h3", {}, "Words of yours in it"),
    el("dl", { class: "facts", "data-testid": "fivegrams" },
      el("dt", {}, "Runs of five tokens in the documents it read"), el("dd", {}, documents.toLocaleString("en")),
      el("dt", {}, "of them in drafts that were sent"), el("dd", {}, drafts.toLocaleString("en")),
      el("dt", {}, "of them in the answer"), el("dd", {}, answer.toLocaleString("en"))),
    el("p", { class: "hint" }, drafts || answer
      ? "Words that the answer quotes from your documents went to the cloud with it. A draft that was not used may quote a document, too."
      : "No run of five tokens of your documents was in a draft or in the answer."),
    el("h3", {}, "Frames"),
    el("table", { class: "frames" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Kind"), el("th", { scope: "col" }, "Frames"), el("th", { scope: "col" }, "Bytes"))), el("tbody", {}, ...rows)),
    el("a", { class: "button small", href: "/api/ledger/export", download: "" }, icon("icon-document"), "Export the whole ledger"),
  ];
}

/** @param {string} headline @param {string} text */
function said(headline, text) {
  return el("p", { class: "said" }, el("strong", {}, headline), text);
}
