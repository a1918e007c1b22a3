/**
 * Questions that a document may answer, made of its own sentences. They are in English, whatever the
 * page speaks: sentences of other languages are not taken apart, and only there is a summary known.
 */

import { getText } from "../core/api.js";
import { t } from "../core/strings.js";

const MOST = 3;
/** Characters of the document that are looked at. */
const BEGINNING = 6000;
/** A noun with what belongs to it: no verb in it, and no second clause. */
const THING = "(?:The|the) ([a-z](?:(?! (?:is|are|was|were|has|have|and|or|but|that|which|who) )[^.,;:!?]){2,50}?)";
const PLACE = "(?:in|under|behind|on|at|beside|by|above|below|inside|next to|left of|right of)";
const TIME = "(?:(?:in|on|at|until|before|after) (?:the (?:first|last|middle|end|week|month|morning|evening)|spring|summer|autumn|winter|noon|[0-9]|[A-Z][a-z]+))";

/** What a sentence says of a thing, and the question that it answers. @type {[RegExp, (thing: string, verb: string, done: string) => string][]} */
const FORMS = [
  [new RegExp(`^${THING} (hang|lie|stand|live|sit)s ${PLACE} `), (thing, verb) => `Where does the ${thing} ${verb}?`],
  [new RegExp(`^${THING} (is|are) ([a-z]+(?:ed|en|pt|ld|nt|ut)) ${TIME}`), (thing, verb, done) => `When ${verb} the ${thing} ${done}?`],
  [new RegExp(`^${THING} (is|are) ([a-z]+(?:ed|en|pt|ld)) ${PLACE} `), (thing, verb, done) => `Where ${verb} the ${thing} ${done}?`],
  [new RegExp(`^${THING} (is|are) ${PLACE} `), (thing, verb) => `Where ${verb} the ${thing}?`],
  [new RegExp(`^${THING} (is|are) (?![a-z]+(?:ed|en|pt|ld|nt|ing|not|up|off)\\b)`), (thing, verb) => `What ${verb} the ${thing}?`],
];

/** By document. @type {Map<string, Promise<string[]>>} */
const made = new Map();

/** Up to three questions to a document. @param {string} id @param {string} name */
export function suggestions(id, name) {
  const known = made.get(id) ?? getText(id, 0, BEGINNING).then(({ text }) => questionsOf(text, name), () => []);
  made.set(id, known);
  return known;
}

/** @param {string} text @param {string} name */
function questionsOf(text, name) {
  const sentences = text.split(/(?<=[.!?])\s+|\n+/).map((sentence) => sentence.trim());
  const asked = sentences.flatMap((sentence) => {
    for (const [form, question] of FORMS) {
      const found = form.exec(sentence);
      if (found) return [question(found[1] ?? "", found[2] ?? "", found[3] ?? "")];
    }
    return [];
  });
  return [...new Set(asked), t("suggest.summary", { name })].slice(0, MOST);
}
