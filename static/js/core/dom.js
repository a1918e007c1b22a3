/** Making and finding elements. Text always goes in as text nodes, so nothing is parsed as HTML. */

import { number, t } from "./strings.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * The element of the page with this id.
 *
 * @template {Element} [T=HTMLElement]
 * @param {string} id
 * @returns {T}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return /** @type {T} */ (/** @type {unknown} */ (found));
}

/**
 * A new element. Attributes that are `null`, `undefined` or `false` are left out.
 *
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number | boolean | null | undefined>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/**
 * A drawing of the sprite in index.html; decoration, so hidden from screen readers.
 *
 * @param {string} name Id of the symbol.
 * @param {string} [className]
 */
export function icon(name, className = "icon") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

/** The texts in an element, in their order. @param {Node | undefined} root */
export function textsOf(root) {
  /** @type {Text[]} */
  const found = [];
  if (root) for (const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT); walker.nextNode(); ) found.push(/** @type {Text} */ (walker.currentNode));
  return found;
}

/** Says something to screen readers once. @param {string} text */
export function announce(text) {
  byId("announcer").textContent = text;
}

/** A name that may be long, for a sentence: its beginning, and its end, which often tells it from others. @param {string} name */
export function shortened(name) {
  const letters = [...name];
  return letters.length > 44 ? `${letters.slice(0, 26).join("").trim()}…${letters.slice(-16).join("").trim()}` : name;
}

/** A duration for people. @param {number} ms */
export function seconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${number(ms / 1000, 1)} s`;
}

/** A file size for people, in decimal units. @param {number} bytes */
export function formatBytes(bytes) {
  if (bytes < 1000) return t("bytes", { count: bytes });
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} kB`;
  return bytes < 999.5e6 ? `${number(bytes / 1e6, 1)} MB` : `${number(bytes / 1e9, 1)} GB`;
}
