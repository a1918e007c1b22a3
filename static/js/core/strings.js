/** Every word of the page, in the language of the browser; `static/text` has a file for each. */

const LANGUAGES = ["en", "de", "es"];

/** @param {string} tag */
const languageOf = (tag) => tag.slice(0, 2).toLowerCase();
/** The first of the browser's that the page speaks, as it is spoken there: dates and numbers are written so. */
export const locale = navigator.languages.find((tag) => LANGUAGES.includes(languageOf(tag))) ?? "en";
const language = languageOf(locale);

/** @typedef {string | {one: string, other: string}} Words Two forms where a count decides. */

/** @type {Record<string, Words>} */
const words = await (await fetch(`/static/text/${language}.json`)).json();
const forms = new Intl.PluralRules(language);

/**
 * A text of the page. `{name}` in it stands for a value; `count` chooses the form.
 *
 * @param {string} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  const found = words[key];
  if (found === undefined) throw new Error(`static/text has no ${key}`);
  const text = typeof found === "string" ? found : forms.select(Number(values.count)) === "one" ? found.one : found.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name] ?? "";
    return typeof value === "number" ? number(value) : value;
  });
}

/** Things in a row, as the language puts them. @param {string[]} items */
export const listed = (items) => new Intl.ListFormat(language).format(items);

/**
 * A message of the device in a field of an object, in the language of the browser. The field has its English, and
 * `localizable` its code and values; a code that this page does not know is left in English.
 *
 * @template {string} F
 * @param {{[field in F]?: string | null} & {localizable?: Record<string, Localizable> | null}} object
 * @param {F} field
 */
export function localized(object, field) {
  const message = object.localizable?.[field];
  return (message && worded(message)) ?? object[field] ?? "";
}

/** @typedef {{text: string, code: string, values: Record<string, string | number | Localizable>}} Localizable */

/** @param {Localizable} message @returns {string} */
function worded({ text, code, values }) {
  const key = `message.${code}`;
  if (!(key in words)) return text;
  return t(key, Object.fromEntries(Object.entries(values).map(([name, value]) => [name, typeof value === "object" ? worded(value) : value])));
}

/**
 * A message's text with the device's own phrases in the language of the browser.
 *
 * @param {string} text
 * @param {[number, number, string][]} [phrases] Where they stand, in characters, and which.
 */
export function phrased(text, phrases = []) {
  const letters = [...text];
  for (const [start, end, phrase] of phrases.toReversed()) letters.splice(start, end - start, t(`phrase.${phrase}`));
  return letters.join("");
}

/** A text in small letters without accents, as it is compared with others. @param {string} text */
export const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** Whether a text looks English, by words that texts in the page's other languages do not have. @param {string} text */
export const looksEnglish = (text) => /(?<!\p{L})(?:the|of|and|is|how|what|when|where|who)(?!\p{L})/iu.test(text);

/** A number as people of the language write it. @param {number} value @param {number} [digits] Behind the point. */
export function number(value, digits) {
  return value.toLocaleString(locale, digits === undefined ? {} : { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Fills in what the page's HTML leaves open: `data-text` its text, `data-text-ATTRIBUTE` an attribute. */
export function fillIn() {
  document.documentElement.lang = language;
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) {
      if (name === "data-text") element.append(t(value));
      else if (name.startsWith("data-text-")) element.setAttribute(name.slice("data-text-".length), t(value));
    }
  }
}
