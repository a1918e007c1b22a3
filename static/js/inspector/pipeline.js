/** A picture of how an answer was written: both sides' drafts and the text, on one time axis. */

import { el } from "../core/dom.js";
import { number, t } from "../core/strings.js";

/**
 * What happened at a position: a side wrote a draft, or a token became text.
 *
 * @typedef {[kind: "d" | "c" | "t", position: number, from: number, to: number]} Entry Times in milliseconds.
 */

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 186;
const LANES = { d: 24, t: 80, c: 120 };
const LANE = 26;
const MARGIN = 8;
/** A draft's least width in pixels, so that it can be seen. */
const LEAST = 7;

/** @param {Entry[]} trace @param {string[]} verdicts By position, whose draft it is: `=` both sides', `d`, `c`, or `.` neither's. */
export function pipeline(trace, verdicts) {
  const drafts = trace.filter(([kind]) => kind !== "t");
  const text = trace.filter(([kind]) => kind === "t");
  const from = Math.min(...trace.map((entry) => entry[2]));
  const to = Math.max(...trace.map((entry) => entry[3]));
  const steps = drafts.map((entry) => entry[3] - entry[2]).filter((ms) => ms > 0).sort((a, b) => a - b);
  const median = steps[steps.length >> 1] ?? (to - from) / Math.max(1, text.length);
  const scale = Math.min(6, Math.max(0.15, (1.6 * LEAST) / Math.max(median, 0.5)));
  const width = Math.max(300, (to - from) * scale + 2 * MARGIN);
  const x = (/** @type {number} */ ms) => MARGIN + (ms - from) * scale;

  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": described(drafts, text, verdicts, to - from) });
  /** The last draft of a side at a position is the one that was judged. @type {Map<string, Entry>} */
  const judged = new Map(drafts.map((entry) => [`${entry[0]}${entry[1]}`, entry]));
  for (const entry of drafts) {
    const [kind, position, begun, ended] = entry;
    const verdict = verdicts[position];
    const state = judged.get(`${kind}${position}`) !== entry || verdict === undefined ? "wasted" : verdict === "=" || verdict === kind ? "kept" : "rejected";
    const left = x(begun);
    const box = shape("rect", { class: `draft is-${kind} is-${state}`, x: left, y: LANES[kind], width: Math.max(LEAST - 2, (ended - begun) * scale - 1), height: LANE, rx: 3 });
    box.append(title(t("pipe.draft", { side: t(kind === "d" ? "live.device" : "live.cloud"), position: position + 1, state: t(`pipe.${state}`) })));
    svg.append(box);
    if (state === "rejected") {
      const [cx, cy] = [left + Math.max(LEAST - 2, (ended - begun) * scale - 1) / 2, LANES[kind] + LANE / 2];
      svg.append(shape("path", { class: "cross", d: `M${cx - 3} ${cy - 3}l6 6m0-6l-6 6` }));
    }
  }
  svg.append(shape("path", { class: "axis", d: `M${MARGIN} ${LANES.t + 8}H${width - MARGIN}` }));
  for (const [, position, at] of text) {
    const dot = shape("circle", { class: `commit is-${{ "=": "both", d: "d", c: "c" }[verdicts[position] ?? ""] ?? "none"}`, cx: x(at), cy: LANES.t + 8, r: 3.5 });
    dot.append(title(t("pipe.commit", { position: position + 1, ms: Math.round(at - from) })));
    svg.append(dot);
  }
  const step = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000].find((ms) => ms * scale >= 56) ?? 20_000;
  for (let ms = 0; ms <= to - from; ms += step) {
    svg.append(shape("path", { class: "tick", d: `M${x(from + ms)} 154v5` }));
    if (x(from + ms) > width - 24) break;
    const label = shape("text", { class: "tick-label", x: x(from + ms), y: 174, "text-anchor": ms ? "middle" : "start" });
    label.textContent = ms >= 1000 ? `${number(ms / 1000)} s` : `${ms} ms`;
    svg.append(label);
  }
  for (const [y, words] of /** @type {[number, string][]} */ ([[16, t("pipe.device")], [72, t("pipe.text")], [112, t("pipe.cloud")]])) {
    const label = shape("text", { class: "lane-label", x: MARGIN, y });
    label.textContent = words;
    svg.append(label);
  }
  return el("figure", { class: "pipeline", "data-testid": "pipeline" },
    el("div", { class: "pipeline-scroll", tabindex: 0, role: "region", "aria-label": t("live.pipeline.of") }, svg),
    el("figcaption", {}, el("span", { class: "key is-kept" }, t("pipe.kept")), el("span", { class: "key is-rejected" }, t("pipe.rejected")), el("span", { class: "key is-wasted" }, t("pipe.wasted"))),
  );
}

/** @param {Entry[]} drafts @param {Entry[]} text @param {string[]} verdicts @param {number} ms */
function described(drafts, text, verdicts, ms) {
  const of = (/** @type {string} */ kind) => drafts.filter((entry) => entry[0] === kind).length;
  const rejected = (/** @type {string} */ kind) => verdicts.filter((verdict) => verdict !== "=" && verdict !== kind).length;
  return t("pipe.described", {
    ms: Math.round(ms), tokens: text.length,
    device: of("d"), device_rejected: rejected("d"), cloud: of("c"), cloud_rejected: rejected("c"),
  });
}

/** @param {string} name @param {Record<string, string | number>} attributes */
function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** @param {string} text */
function title(text) {
  const element = shape("title", {});
  element.textContent = text;
  return element;
}
