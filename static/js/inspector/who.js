/** Who wrote what: the text of an answer once more, each word in the colour of the side it came from. */

import { byId, el } from "../core/dom.js";
import { t } from "../core/strings.js";
import { Provenance } from "./provenance.js";

/** @typedef {import("../chat/answer.js").AnswerView} AnswerView */

/** @type {Provenance | null} */
let shown = null;
let drawn = "";

/** @param {AnswerView | null} view */
export async function showWho(view) {
  const panel = byId("panel-who");
  if (!view || view.writing) {
    hideWho();
    panel.replaceChildren(el("p", { class: "empty" }, t(view ? "ledger.writing" : "live.empty")));
    return;
  }
  // What is read or hovered over stays, whatever else on the page changes.
  const { id, text, phrases = [], asked, sources = [] } = view.message;
  const now = `${id} ${text}`;
  if (drawn === now) return;
  hideWho();
  drawn = now;
  const tokens = await view.tokens().catch(() => []);
  // Another answer's has been asked for since.
  if (drawn !== now) return;
  const body = el("div", { class: "text markdown", "data-testid": "who-text" }, ...view.copied());
  const legend = el("div", { class: "legend", "data-testid": "legend" });
  panel.replaceChildren(legend, body);
  shown = new Provenance(body);
  shown.show(tokens, sources);
  legend.replaceChildren(...shown.legend(phrases.length > 0, asked?.model));
}

/** Also frees what lives outside of the panel. */
export function hideWho() {
  shown?.hide();
  shown = null;
  drawn = "";
}
