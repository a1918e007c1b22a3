/** A small menu of actions that opens beside the button it belongs to. */

import { byId, el, icon } from "./dom.js";

/**
 * @param {HTMLElement} anchor
 * @param {{label: string, icon: string, act?: () => void, href?: string, danger?: boolean, testid?: string}[]} items
 */
export function openMenu(anchor, items) {
  const menu = byId("menu");
  const entries = items.map(({ label, icon: name, act, href, danger, testid }) => {
    const attributes = { class: danger ? "menu-item danger" : "menu-item", role: "menuitem", "data-testid": testid, href, download: href ? "" : null };
    const item = href ? el("a", attributes, icon(name), label) : el("button", { ...attributes, type: "button" }, icon(name), label);
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
