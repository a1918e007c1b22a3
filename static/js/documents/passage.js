/** A part of a document's text with a passage marked: as the device's HTML, as rows of a table, or as it is. */

import { framed, nameTables } from "../core/controls.js";
import { el, textsOf } from "../core/dom.js";

/** @typedef {{text: string, html: string | null, start: number, end: number, length: number}} Part Of the whole text, in characters. */
/** @typedef {{text: string, marked: boolean, whole: boolean}} Line */

/** Stand around the passage in the device's HTML. */
const BEGIN = "\ue002";
const END = "\ue003";
const CELL = /^([^:;]{1,40}): (.+)$/;

/**
 * @param {Part} part
 * @param {number} from Where the passage begins in the document
 * @param {number} to and ends.
 * @param {boolean} [around] Whether only what is around the passage is shown, so that lines which are cut may be left out.
 * @returns {(Node | string)[]}
 */
export function drawn(part, from, to, around = false) {
  const { text, html, start, end, length } = part;
  const [before, after] = around ? [start > 0 ? "…" : "", end < length ? "…" : ""] : ["", ""];
  if (html !== null) return [before, withMarks(html), after];
  const lines = linesOf(part, from, to);
  const grid = around || lines.every(({ whole }) => whole) ? gridOf(lines.filter(({ whole, marked }) => whole || marked)) : null;
  if (grid) return [grid];
  if (to <= start || from >= end) return [text];
  // Offsets count characters; a string's count UTF-16 units.
  const characters = [...text];
  const [first, last] = [Math.max(0, from - start), to - start];
  const [lead, marked, rest] = [characters.slice(0, first).join(""), characters.slice(first, last).join(""), characters.slice(last).join("")];
  return around ? [before + lead.trimStart(), el("mark", {}, marked), rest.trimEnd() + after] : [lead, el("mark", {}, marked), rest];
}

/** An element with the device's HTML, in which the passage is marked. @param {string} html */
function withMarks(html) {
  const view = el("div", { class: "view markdown" });
  view.innerHTML = html;
  nameTables(view);
  let inside = false;
  for (const node of textsOf(view)) {
    const pieces = node.data.split(/([\ue002\ue003])/).flatMap((piece) => {
      if (piece === BEGIN || piece === END) inside = piece === BEGIN;
      else if (piece) return [inside && piece.trim() ? el("mark", {}, piece) : piece];
      return [];
    });
    node.replaceWith(...pieces);
  }
  return view;
}

/** Its lines that have something in them. @param {Part} part @param {number} from @param {number} to @returns {Line[]} */
function linesOf({ text, start, end, length }, from, to) {
  let at = start;
  const lines = text.split("\n").map((line, index, all) => {
    const begin = at;
    at += [...line].length + 1;
    const cut = (index === 0 && start > 0) || (index === all.length - 1 && end < length);
    return { text: line, marked: begin < to && at - 1 > from, whole: !cut };
  });
  return lines.filter((line) => line.text);
}

/** The names and values of a row's cells, which a text has as `column: value; column: value`; none for a line that is no row. @param {string} line @returns {[string, string][]} */
export function cellsOf(line) {
  const cells = line.split(/; (?=[^:;]{1,40}: )/).map((cell) => CELL.exec(cell));
  return cells.length > 1 ? cells.flatMap((found) => (found?.[1] && found[2] ? [[found[1], found[2]]] : [])) : [];
}

/** Null unless all lines are rows of one table. @param {Line[]} lines */
function gridOf(lines) {
  const rows = lines.map(({ text, marked }) => ({ cells: cellsOf(text), marked }));
  const first = rows[0]?.cells[0]?.[0];
  if (first === undefined || rows.some(({ cells }) => cells[0]?.[0] !== first)) return null;
  const columns = [...new Set(rows.flatMap(({ cells }) => cells.map(([name]) => name)))];
  return framed(el("table", {},
    el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.map(({ cells, marked }) => {
      const values = new Map(cells);
      return el("tr", {}, ...columns.map((name) => el("td", {}, marked ? el("mark", {}, values.get(name) ?? "") : values.get(name) ?? "")));
    }))), "grid");
}
