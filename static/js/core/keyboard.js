/** Shortcuts, and the sheet that lists them. */

import { byId, el } from "./dom.js";
import { t } from "./strings.js";

/** @typedef {{keys: string, label: string, act: () => void}} Shortcut */

/** Opens the sheet. */
export const showKeys = () => /** @type {HTMLDialogElement} */ (byId("help")).showModal();

/**
 * @param {Record<string, Shortcut[]>} groups Keys as `Ctrl+K`, `?` or `n`; a single key works outside of text fields.
 * @param {() => boolean} singles Whether single letters are shortcuts.
 * @param {() => boolean} onEscape Whether there was something to end.
 */
export function setUpKeyboard(groups, singles, onEscape) {
  const all = Object.values(groups).flat();
  const written = [
    ["Enter", t("keys.text.send")],
    ["Shift+Enter", t("keys.text.line")],
    ["/", t("keys.text.prompts")],
    ["Escape", t("keys.text.stop")],
  ];
  for (const [title, shortcuts] of [[t("keys.text"), written], ...Object.entries(groups).map(([name, list]) => [name, list.map(({ keys, label }) => [keys, label])])]) {
    const rows = /** @type {string[][]} */ (shortcuts).map(([keys = "", label = ""]) =>
      el("div", { class: "key-row" }, el("dt", {}, ...keys.split("+").map((key) => el("kbd", {}, key))), el("dd", {}, label)));
    byId("keys").append(el("section", {}, el("h3", {}, String(title)), el("dl", {}, ...rows)));
  }
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      if (onEscape()) event.preventDefault();
      return;
    }
    const field = /** @type {HTMLElement} */ (event.target).closest("input:not([type=checkbox]), textarea, select, [contenteditable]");
    const control = event.ctrlKey || event.metaKey;
    if (event.altKey || (!control && field)) return;
    const name = `${control ? "Ctrl+" : ""}${control && event.shiftKey ? "Shift+" : ""}${control ? event.key.toUpperCase() : event.key}`;
    if (!control && name === "?") return showKeys();
    const found = all.find(({ keys }) => keys === name);
    if (!found || (!control && !singles())) return;
    event.preventDefault();
    found.act();
  });
}
