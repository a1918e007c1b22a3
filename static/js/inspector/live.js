/** How an answer was written: what it cost, what a round trip a word would have cost, the pipeline. */

import { byId, el, formatBytes, plural, seconds } from "../core/dom.js";
import { pipeline } from "./pipeline.js";

/** @typedef {import("../core/types.js").Message} Message */

/**
 * @param {Message | null} message
 * @param {{tokens: number, ms: number}} progress Of an answer that is being written.
 * @param {number | null} rtt Milliseconds, of the link now.
 */
export function showLive(message, progress, rtt) {
  const panel = byId("panel-live");
  if (!message) {
    panel.replaceChildren(el("p", { class: "empty" }, "Ask something: here is how the two sides wrote the answer."));
    return;
  }
  const stats = message.done?.dragon ?? {};
  if (message.state === "writing" || !message.done) {
    const pace = progress.tokens > 1 ? progress.ms / (progress.tokens - 1) : null;
    panel.replaceChildren(
      figures([["Round trip", message.private ? null : rtt, "ms"], ["Per token", pace, "ms"], ["Tokens", progress.tokens || null, ""]]),
      el("p", { class: "hint" }, message.state === "writing" ? "Being written." : "Nothing was measured for this answer."),
    );
    return;
  }
  const { completion_tokens: tokens } = message.done.usage;
  panel.replaceChildren(
    figures([
      ["Round trip", stats.rtt_ms ?? null, "ms"],
      ["First token", stats.ttft_ms ?? null, "ms"],
      ["Per token", stats.ms_per_token ?? null, "ms"],
    ]),
    ...comparison(stats, tokens),
    ...acceptance(stats),
    ...drawn(stats),
    facts([
      ["Mode", message.private ? "this device alone" : message.asked?.mode],
      ["Temperature", message.asked?.temperature],
      ["Seed", message.asked?.seed],
      ["Tokens", tokens],
      ["Prompt", plural(message.done.usage.prompt_tokens, "token")],
      ["Documents", stats.document_tokens !== undefined && plural(stats.document_tokens, "token")],
      ["A step on this device", stats.decode_device_ms !== undefined && seconds(stats.decode_device_ms)],
      ["A step in the cloud", stats.decode_cloud_ms !== undefined && seconds(stats.decode_cloud_ms)],
      ["Drafts sent", !!stats.sent_frames && `${plural(stats.sent_frames, "frame")}, ${formatBytes(stats.sent_bytes)}`],
    ]),
  );
}

/**
 * What a token cost beside what it would have cost with a round trip for each: the device waits for
 * the cloud's step and the way there and back, unless its own step takes longer.
 *
 * @param {Record<string, number>} stats
 * @param {number} tokens
 */
function comparison(stats, tokens) {
  const { rtt_ms, decode_device_ms, decode_cloud_ms, ms_per_token } = stats;
  if (rtt_ms === undefined || decode_device_ms === undefined || decode_cloud_ms === undefined || ms_per_token === undefined) return [];
  const tokenwise = Math.max(decode_device_ms, rtt_ms + decode_cloud_ms);
  const most = Math.max(tokenwise, ms_per_token);
  const saved = (tokenwise - ms_per_token) * tokens;
  return [
    el("h3", {}, "Time per token"),
    bar("As written", ms_per_token, most, "joint"),
    bar("With a round trip each", tokenwise, most, "plain", "tokenwise"),
    el("p", { class: "hint" }, saved > 0 ? `Not waiting for each other saved ${seconds(saved)}.` : "Over so short a link a round trip each would have been as fast."),
  ];
}

/** The picture of the drafts; an answer of one side has none. @param {Record<string, any>} stats */
function drawn(stats) {
  /** @type {import("./pipeline.js").Entry[]} */
  const trace = stats.trace ?? [];
  if (!trace.some(([kind]) => kind !== "t")) return [el("p", { class: "hint" }, "This device wrote it alone: there were no drafts to agree on.")];
  return [el("h3", {}, "Pipeline"), pipeline(trace, verdicts(stats))];
}

/** A character per position; `verdicts` has those of jointly written tokens only. @param {Record<string, any>} stats */
function verdicts({ verdicts: joint = "", participation = [] }) {
  /** @type {string[]} */
  const all = [];
  let next = 0;
  for (const [from, to] of participation) for (let at = from; at < to; at++) all[at] = joint[next++] ?? "";
  return all;
}

/** @param {Record<string, number>} stats */
function acceptance({ accept_device, accept_cloud, tv }) {
  if (accept_device === undefined || accept_cloud === undefined) return [];
  return [
    el("h3", {}, "Drafts that became the text"),
    share("This device", accept_device, "device", "accept-device"),
    share("The cloud", accept_cloud, "cloud", "accept-cloud"),
    ...(tv === undefined ? [] : [el("p", { class: "hint" }, `The two sides’ distributions were ${tv.toFixed(2)} apart on average, of at most 1.`)]),
  ];
}

/** @param {[string, number | null, string][]} entries */
function figures(entries) {
  return el("dl", { class: "figures" }, ...entries.map(([term, value, unit]) => {
    const shown = value === null ? "–" : value < 10 && unit ? value.toFixed(1) : Math.round(value).toLocaleString("en");
    return el("div", {}, el("dt", {}, term), el("dd", {}, el("strong", {}, shown), value === null ? "" : ` ${unit}`));
  }));
}

/** @param {string} label @param {number} ms @param {number} most @param {string} kind @param {string} [testid] */
function bar(label, ms, most, kind, testid) {
  return meter(label, `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`, ms / most, kind, testid);
}

/** @param {string} label @param {number} fraction @param {string} kind @param {string} testid */
function share(label, fraction, kind, testid) {
  return meter(label, `${Math.round(100 * fraction)} %`, fraction, kind, testid);
}

/** @param {string} label @param {string} value @param {number} fraction @param {string} kind @param {string} [testid] */
function meter(label, value, fraction, kind, testid) {
  const fill = el("span", { class: `meter-fill is-${kind}` });
  fill.style.width = `${100 * fraction}%`;
  return el("div", { class: "meter", "data-testid": testid }, el("span", {}, label), el("span", { class: "number" }, value), el("span", { class: "meter-bar" }, fill));
}

/** @param {[string, any][]} entries */
function facts(entries) {
  const known = entries.filter(([, value]) => value !== undefined && value !== false && value !== null);
  return el("dl", { class: "facts" }, ...known.flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, String(value))]));
}
