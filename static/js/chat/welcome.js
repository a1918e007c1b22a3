/** What an empty conversation shows: the way from nothing to a first answer from one's own note. */

import { byId, el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";

const SAMPLE = "The cabin by the lake.md";
const QUESTIONS = ["What is the wifi password of the cabin?", "Where does the spare key hang?", "When is the chimney swept?"];

/**
 * @param {object} state
 * @param {boolean} state.visible
 * @param {string[]} state.ready Names of the documents that can be asked.
 * @param {number} state.waiting How many are being prepared.
 * @param {object} actions
 * @param {(file: File) => void} actions.add
 * @param {() => void} actions.choose
 * @param {(question: string) => void} actions.ask
 */
export function showWelcome({ visible, ready, waiting }, { add, choose, ask }) {
  byId("welcome").hidden = !visible;
  if (!visible) return;
  const sample = ready.includes(SAMPLE);
  const cards = [];
  if (waiting > 0) {
    cards.push(el("p", { class: "start-wait", role: "status" }, t("welcome.preparing", { count: waiting })));
  } else if (sample) {
    cards.push(el("p", { class: "start-line" }, icon("icon-check"), t("welcome.sample.ready")));
    for (const question of QUESTIONS) cards.push(start("icon-send", question, "", () => ask(question), "start-question"));
  } else if (ready.length) {
    cards.push(el("p", { class: "start-line" }, icon("icon-check"), ready.length === 1 ? t("welcome.ready", { name: ready[0] ?? "" }) : t("welcome.ready.many", { count: ready.length })));
  }
  if (!ready.length && !waiting) {
    cards.push(
      start("icon-upload", t("welcome.add"), t("welcome.add.text"), choose, "start-upload"),
      start("icon-document", t("welcome.sample"), t("welcome.sample.text"), async () => {
        const text = await (await fetch("/static/sample-note.md")).text();
        add(new File([text], SAMPLE, { type: "text/markdown" }));
      }, "start-sample"),
    );
  }
  byId("starts").replaceChildren(...cards);
}

/** @param {string} symbol @param {string} title @param {string} text @param {() => void} act @param {string} testid */
function start(symbol, title, text, act, testid) {
  const button = el("button", { class: "start", type: "button", "data-testid": testid }, icon(symbol), el("span", {}, el("strong", {}, title), ...(text ? [el("small", {}, text)] : [])));
  button.addEventListener("click", act);
  return button;
}
