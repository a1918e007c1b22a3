/** Questions that a document may answer, in the language of the page; a summary can be asked for of any. */

import { getText } from "../core/api.js";
import { locale, t } from "../core/strings.js";
import { questionsOf } from "./questions.js";

/** How many are offered, at most; their place is kept in `welcome.css`. */
const MOST = 3;
/** Characters of the document that are looked at. */
const BEGINNING = 6000;

/** By document. @type {Map<string, Promise<string[]>>} */
const made = new Map();

/** Up to three questions to a document. @param {string} id @param {string} name @param {boolean} english Whether they may be in English on any page. */
export function suggestions(id, name, english) {
  const known = made.get(id) ?? getText(id, 0, BEGINNING).then(({ text }) => offered(text, name, english), () => [t("suggest.summary", { name })]);
  made.set(id, known);
  return known;
}

/** @param {string} text @param {string} name @param {boolean} english */
function offered(text, name, english) {
  const asked = questionsOf(text, english || locale.startsWith("en")).map((each) => (typeof each === "string" ? each : t(each.key, each.values)));
  return [...asked, t("suggest.summary", { name })].slice(0, MOST);
}
