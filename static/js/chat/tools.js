/** The small buttons beside questions and answers. */

import { el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";

/** @param {string} symbol @param {string} label @param {string} testid @param {() => void} act */
export function tool(symbol, label, testid, act) {
  const button = el("button", { class: "icon-button small", type: "button", title: label, "aria-label": label, "data-testid": testid }, icon(symbol));
  button.addEventListener("click", act);
  return button;
}

/** @param {number} at @param {number} of @param {(step: number) => void} act */
export function branchSwitch(at, of, act) {
  const back = tool("icon-back", t("branch.back"), "branch-back", () => act(-1));
  const next = tool("icon-chevron", t("branch.next"), "branch-next", () => act(1));
  back.disabled = at === 0;
  next.disabled = at === of - 1;
  return el("span", { class: "branches", "data-testid": "branches" }, back, el("span", { class: "number" }, `${at + 1}/${of}`), next);
}
