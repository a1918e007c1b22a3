/** How fast models write here, in words a second: as this browser has seen it, and nothing of those it has not seen. */

import { keep, kept } from "./kept.js";
import { number, t } from "./strings.js";

const SEEN = "dragon.paces";
/** How much of a pace is the latest time. */
const LATEST = 0.3;

/** A model wrote at this pace. @param {string} model @param {number} words A second. */
export function learnPace(model, words) {
  const paces = seen();
  paces[model] = words * LATEST + (paces[model] ?? words) * (1 - LATEST);
  keep(SEEN, paces);
}

/** In words; empty of a model that was not seen writing. @param {string} model */
export function paceOf(model) {
  const words = seen()[model];
  return words ? t("model.pace", { pace: number(words, words < 10 ? 1 : 0) }) : "";
}

/** @returns {Record<string, number>} */
const seen = () => kept(SEEN, {});
