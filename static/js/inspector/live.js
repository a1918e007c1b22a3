/** How an answer was written: what it cost, what a round trip a word would have cost, the pipeline. */

import { byId, el, formatBytes, seconds } from "../core/dom.js";
import { number, t } from "../core/strings.js";
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
    panel.replaceChildren(el("p", { class: "empty" }, t("live.empty")));
    return;
  }
  const stats = message.done?.dragon ?? {};
  if (message.state === "writing" || !message.done) {
    const pace = progress.tokens > 1 ? progress.ms / (progress.tokens - 1) : null;
    panel.replaceChildren(
      figures([[t("live.trip"), message.private ? null : rtt, "ms"], [t("live.token"), pace, "ms"], [t("live.tokens"), progress.tokens || null, ""]]),
      el("p", { class: "hint" }, t(message.state === "writing" ? "live.writing" : "live.unmeasured")),
    );
    return;
  }
  const { completion_tokens: tokens } = message.done.usage;
  panel.replaceChildren(
    figures([
      [t("live.trip"), stats.rtt_ms ?? null, "ms"],
      [t("live.first"), stats.ttft_ms ?? null, "ms"],
      [t("live.token"), stats.ms_per_token ?? null, "ms"],
    ]),
    ...comparison(stats, tokens),
    ...acceptance(stats),
    ...drawn(stats),
    ...weighed(message.sources ?? []),
    facts([
      [t("link.model"), message.asked?.model],
      [t("live.mode"), message.private ? t("live.mode.private") : message.asked?.mode],
      [t("live.temperature"), message.asked && number(message.asked.temperature)],
      [t("live.seed"), message.asked?.seed],
      [t("live.tokens"), number(tokens)],
      [t("live.prompt"), t("tokens", { count: message.done.usage.prompt_tokens })],
      [t("live.passages"), stats.document_tokens !== undefined && t("tokens", { count: stats.document_tokens })],
      [t("live.step.device"), stats.decode_device_ms !== undefined && seconds(stats.decode_device_ms)],
      [t("live.step.cloud"), stats.decode_cloud_ms !== undefined && seconds(stats.decode_cloud_ms)],
      [t("live.apart"), stats.tv !== undefined && number(stats.tv, 2)],
      [t("live.sent"), !!stats.sent_frames && `${t("frames", { count: stats.sent_frames })}, ${formatBytes(stats.sent_bytes)}`],
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
    el("h3", {}, t("live.time")),
    bar(t("live.time.joint"), ms_per_token, most, "joint"),
    bar(t("live.time.tokenwise"), tokenwise, most, "plain", "tokenwise"),
    el("p", { class: "hint" }, saved > 0 ? t("live.saved", { time: seconds(saved) }) : t("live.unsaved")),
  ];
}

/** The picture of the drafts; an answer of one side has none. @param {Record<string, any>} stats */
function drawn(stats) {
  /** @type {import("./pipeline.js").Entry[]} */
  const trace = stats.trace ?? [];
  if (!trace.some(([kind]) => kind !== "t")) return [el("p", { class: "hint" }, t("live.alone"))];
  return [el("h3", {}, t("live.pipeline")), pipeline(trace, verdicts(stats))];
}

/** How much each passage weighed among those of its side. @param {import("../core/types.js").Source[]} sources */
function weighed(sources) {
  const read = sources.filter(({ weight }) => weight > 0);
  if (!read.length) return [];
  return [el("h3", {}, t("live.weights")), ...read.map(({ side, title, weight }) => share(title, Math.min(1, weight), side === "private" ? "device" : "cloud", "weight"))];
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
function acceptance({ accept_device, accept_cloud }) {
  if (accept_device === undefined || accept_cloud === undefined) return [];
  return [
    el("h3", {}, t("live.accepted")),
    share(t("live.device"), accept_device, "device", "accept-device"),
    share(t("live.cloud"), accept_cloud, "cloud", "accept-cloud"),
  ];
}

/** @param {[string, number | null, string][]} entries */
function figures(entries) {
  return el("dl", { class: "figures" }, ...entries.map(([term, value, unit]) => {
    const shown = value === null ? "–" : value < 10 && unit ? number(value, 1) : number(Math.round(value));
    return el("div", {}, el("dt", {}, term), el("dd", {}, el("strong", {}, shown), value === null ? "" : ` ${unit}`));
  }));
}

/** @param {string} label @param {number} ms @param {number} most @param {string} kind @param {string} [testid] */
function bar(label, ms, most, kind, testid) {
  return meter(label, `${ms < 10 ? number(ms, 1) : number(Math.round(ms))} ms`, ms / most, kind, testid);
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
