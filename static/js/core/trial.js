/** What trying a model has shown, in words that say whether to choose it. */

import { el, formatBytes, icon } from "./dom.js";
import { localized, number, t } from "./strings.js";

/** @typedef {import("./types.js").Trial} Trial */

/** Words a second; people read about four. */
const FASTER = 6, EVEN = 3, SLOWER = 1;
/** The share of a device's memory that leaves other programs room. */
const ROOMY = 0.75;

/** @param {Trial} trial @returns {HTMLElement[]} */
export function verdict(trial) {
  const { question, text, answer, works, fits } = trial;
  const found = text ? (works ? "trial.works.quotes" : "trial.works.quotes.not") : works ? "trial.works" : "trial.works.not";
  const given = text ? `${t("trial.given", { text: text.replaceAll("\n", " ") })} ` : "";
  return [
    el("p", { class: "hint" }, given + t("trial.asked", { question })),
    ...(answer ? [el("blockquote", { "data-testid": "trial-answer" }, answer)] : []),
    el("ul", { class: "verdict", "data-testid": "trial-verdict" },
      line(works, t(found)),
      ...(answer ? [pace(trial)] : []),
      memory(trial),
      // That device and cloud start anew with it is the usual case, and no warning.
      line(fits !== false || trial.localizable?.peer?.code === "trial.unfit", localized(trial, "peer"))),
  ];
}

/** @param {Trial} trial */
function pace({ words_per_s: words }) {
  const found = words >= FASTER ? "fast" : words >= EVEN ? "even" : words >= SLOWER ? "slow" : "crawling";
  return line(words >= EVEN, t(`trial.pace.${found}`, { pace: number(words, words < 10 ? 1 : 0) }));
}

/** @param {Trial} trial */
function memory({ memory: needed, installed }) {
  if (needed === null) return line(true, t("trial.memory.elsewhere"));
  const found = needed > installed ? "over" : needed > ROOMY * installed ? "tight" : "fits";
  return line(found === "fits", t(`trial.memory.${found}`, { needed: formatBytes(needed), installed: formatBytes(installed) }));
}

/** @param {boolean} good @param {string} said */
function line(good, said) {
  return el("li", { "data-good": String(good) }, icon(good ? "icon-check" : "icon-warning"), el("span", {}, said));
}
