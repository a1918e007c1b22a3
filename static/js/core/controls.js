/** Buttons, and the menus that open beside them. */

import { byId, el, icon } from "./dom.js";
import { t } from "./strings.js";

/**
 * A button that does something.
 *
 * @param {Record<string, string | number | boolean | null | undefined>} attributes
 * @param {(event: MouseEvent) => void} act
 * @param {...(Node | string)} children
 */
export function pressable(attributes, act, ...children) {
  const made = el("button", { type: "button", ...attributes }, ...children);
  made.addEventListener("click", act);
  return made;
}

/** One with a border and a word. @param {string} label @param {string} testid @param {() => void} act */
export const button = (label, testid, act) => pressable({ class: "button small", "data-testid": testid }, act, label);

/** A small one with a drawing. @param {string} symbol @param {string} label @param {string} testid @param {() => void} act */
export const tool = (symbol, label, testid, act) =>
  pressable({ class: "icon-button small", title: label, "aria-label": label, "data-testid": testid }, act, icon(symbol));

/** A table in a frame that keys scroll, too. @param {HTMLTableElement} table @param {string} [testid] */
export const framed = (table, testid) => el("div", { class: "table", tabindex: 0, role: "region", "aria-label": t("answer.table"), "data-testid": testid }, table);

/** Names the tables in the device's HTML. @param {HTMLElement} element */
export function nameTables(element) {
  for (const table of element.querySelectorAll(".table")) table.setAttribute("aria-label", t("answer.table"));
}

/** @param {number} at @param {number} of @param {(step: number) => void} act */
export function branchSwitch(at, of, act) {
  const back = tool("icon-back", t("branch.back"), "branch-back", () => act(-1));
  const next = tool("icon-chevron", t("branch.next"), "branch-next", () => act(1));
  back.disabled = at === 0;
  next.disabled = at === of - 1;
  return el("span", { class: "branches", "data-testid": "branches" }, back, el("span", { class: "number" }, `${at + 1}/${of}`), next);
}

/** Draws controls anew; the one that had the focus has it again. @param {HTMLElement} group @param {...(Node | string)} controls */
export function redraw(group, ...controls) {
  const focused = /** @type {HTMLElement | null} */ (group.contains(document.activeElement) ? document.activeElement : null)?.dataset.testid;
  group.replaceChildren(...controls);
  if (focused) /** @type {HTMLElement | null} */ (group.querySelector(`[data-testid="${focused}"]`))?.focus();
}

/** @typedef {{label: string, note?: string, icon: string, act?: () => void, href?: string, danger?: boolean, checked?: boolean, testid?: string}} Item `checked` is known of items of which one is chosen; `note` stands below. */

/** A small button that opens a menu. @param {string} label @param {string} testid @param {() => Item[]} items */
export function menuButton(label, testid, items) {
  const attributes = { class: "icon-button small", title: label, "aria-label": label, "aria-haspopup": "menu", "aria-expanded": "false", "data-testid": testid };
  const anchor = pressable(attributes, () => openMenu(anchor, items()), icon("icon-more"));
  return anchor;
}

/**
 * Opens a menu of actions beside its button.
 *
 * @param {HTMLElement} anchor
 * @param {Item[]} items
 */
export function openMenu(anchor, items) {
  const menu = byId("menu");
  const entries = items.map(({ label, note, icon: name, act, href, danger, checked, testid }) => {
    const role = checked === undefined ? { role: "menuitem" } : { role: "menuitemradio", "aria-checked": String(checked) };
    const attributes = { class: danger ? "menu-item danger" : "menu-item", ...role, "data-testid": testid, href, download: href ? "" : null };
    const text = note ? el("span", {}, label, el("small", {}, note)) : label;
    const item = href ? el("a", attributes, icon(name), text) : el("button", { ...attributes, type: "button" }, icon(name), text);
    item.addEventListener("click", () => {
      menu.hidePopover();
      act?.();
    });
    return item;
  });
  menu.replaceChildren(...entries);
  menu.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = entries.indexOf(/** @type {any} */ (document.activeElement));
    entries[(at + step + entries.length) % entries.length]?.focus();
  };
  menu.addEventListener("toggle", (event) => {
    const open = /** @type {ToggleEvent} */ (event).newState === "open";
    anchor.setAttribute("aria-expanded", String(open));
    if (!open && menu.contains(document.activeElement)) anchor.focus();
  }, { once: true });
  menu.showPopover();
  place(menu, anchor);
  entries[0]?.focus();
}

/** Puts an open popover beside its button, inside the window. @param {HTMLElement} popover @param {Element} anchor */
export function place(popover, anchor) {
  const box = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = popover;
  const below = box.bottom + 4;
  const top = below + height > innerHeight - 8 ? Math.max(8, box.top - height - 4) : below;
  popover.style.top = `${top}px`;
  popover.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
}
