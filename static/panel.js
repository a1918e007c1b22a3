/** The documents panel on narrow screens, where it slides over the conversation. */

import { byId } from "./dom.js";

const narrow = matchMedia("(max-width: 52rem)");

/** Wires the buttons that open and close the panel. */
export function setUpPanel() {
  const app = byId("app");
  const panel = byId("panel");
  const toggle = byId("panel-toggle");
  const scrim = byId("scrim");
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));

  /** @param {boolean} open */
  const setOpen = (open) => {
    const covering = open && narrow.matches;
    app.classList.toggle("panel-open", covering);
    toggle.setAttribute("aria-expanded", String(covering));
    scrim.hidden = !covering;
    panel.inert = narrow.matches && !open;
    main.inert = covering;
  };

  toggle.addEventListener("click", () => {
    setOpen(toggle.getAttribute("aria-expanded") !== "true");
    if (!panel.inert) byId("panel-close").focus();
  });
  const close = () => {
    setOpen(false);
    toggle.focus();
  };
  byId("panel-close").addEventListener("click", close);
  scrim.addEventListener("click", close);
  panel.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && narrow.matches) close();
  });
  narrow.addEventListener("change", () => setOpen(false));
  setOpen(false);
}
