/** What an empty conversation shows: the way from nothing to a first answer from one's own note. */

import { getText } from "../core/api.js";
import { pressable } from "../core/controls.js";
import { byId, el, icon, shortened } from "../core/dom.js";
import { locale, t } from "../core/strings.js";
import { questionsOf } from "./questions.js";

const SAMPLE = "The cabin by the lake.md";
/** How many questions are offered, at most. */
const MOST = 3;
/** Characters of the document that they are made of. */
const BEGINNING = 6000;

/** Questions by document. @type {Map<string, Promise<string[]>>} */
const made = new Map();

/** @typedef {import("../core/types.js").StoredFile} StoredFile */

/**
 * @param {object} state
 * @param {boolean} state.visible
 * @param {StoredFile[] | null} state.files That can be asked, the newest first; null: not known yet.
 * @param {number} state.waiting How many are being prepared.
 * @param {string} state.project That a question would be of; empty: none.
 * @param {string} state.instruction Of the project.
 * @param {boolean} state.alone Whether the cloud takes no part.
 * @param {object} actions
 * @param {(file: File) => void} actions.add
 * @param {() => void} actions.choose
 * @param {(question: string, only?: string) => void} actions.ask `only` is the document that may be used.
 */
export function showWelcome({ visible, files, waiting, project, instruction, alone }, { add, choose, ask }) {
  byId("welcome").hidden = !visible;
  if (!visible) return;
  byId("welcome-title").textContent = project || t("welcome.title");
  byId("welcome-lead").textContent = project ? instruction || t("projects.lead") : [t("welcome.lead"), ...(alone ? [] : [t("welcome.lead.cloud")])].join(" ");
  if (!files) return;
  const [newest] = files;
  // What is there stays: a click must not meet what has just come in its place.
  const now = JSON.stringify([waiting, newest?.id, files.length]);
  if (byId("starts").dataset.shown === now) return;
  byId("starts").dataset.shown = now;
  const cards = [];
  const asking = el("div", { class: "suggestions", "data-testid": "suggestions" });
  if (waiting > 0) {
    cards.push(el("p", { class: "start-wait", role: "status" }, t("welcome.preparing", { count: waiting })), asking);
  } else if (newest) {
    const ready = readiness(newest.filename, files.length);
    cards.push(el("p", { class: "start-line" }, icon("icon-check"), ready), asking);
    suggestions(newest).then((questions) => asking.replaceChildren(...questions.map((question) => suggested(question, newest, files.length > 1, ask))));
  } else {
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

/** What can be asked, and of which document the questions are. @param {string} name @param {number} count */
function readiness(name, count) {
  if (count > 1) return `${t("welcome.ready.documents", { count })} ${t("welcome.ready.newest", { name: shortened(name) })}`;
  return name === SAMPLE ? t("welcome.sample.ready") : t("welcome.ready", { name: shortened(name) });
}

/** @param {string} question @param {StoredFile} file @param {boolean} among Whether there are others. @param {(question: string, only?: string) => void} ask */
function suggested(question, { id, filename }, among, ask) {
  const whole = start("icon-send", question, "", () => ask(question), "start-question");
  if (!among) return el("div", { class: "suggestion" }, whole);
  const only = pressable({ class: "link", title: filename, "data-testid": "only-this" }, () => ask(question, id), t("suggest.only"));
  return el("div", { class: "suggestion" }, whole, only);
}

/** @param {string} symbol @param {string} title @param {string} text @param {() => void} act @param {string} testid */
function start(symbol, title, text, act, testid) {
  return pressable({ class: "start", "data-testid": testid }, act, icon(symbol), el("span", {}, el("strong", {}, title), ...(text ? [el("small", {}, text)] : [])));
}

/** Up to three questions to a document; a summary can be asked for of any. @param {StoredFile} file */
function suggestions({ id, filename: name }) {
  const summary = t("suggest.summary", { name });
  const known = made.get(id) ?? getText(id, 0, BEGINNING).then(({ text }) => {
    const asked = questionsOf(text, name === SAMPLE || locale.startsWith("en"));
    return [...asked.map((each) => (typeof each === "string" ? each : t(each.key, each.values))), summary].slice(0, MOST);
  }, () => [summary]);
  made.set(id, known);
  return known;
}
