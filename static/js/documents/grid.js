/** Rows of a table, which a document's text has as `column: value; column: value`, drawn as a grid. */

import { el } from "../core/dom.js";

const CELL = /^([^:;]{1,40}): (.+)$/;

/** The names and values of a row's cells; none for a line that is no row. @param {string} line @returns {[string, string][]} */
export function cellsOf(line) {
  const cells = line.split(/; (?=[^:;]{1,40}: )/).map((cell) => CELL.exec(cell));
  return cells.length > 1 ? cells.flatMap((found) => (found?.[1] && found[2] ? [[found[1], found[2]]] : [])) : [];
}

/** Null unless all lines are rows of one table. @param {{text: string, marked: boolean}[]} lines */
export function gridOf(lines) {
  const rows = lines.map(({ text, marked }) => ({ cells: cellsOf(text), marked }));
  const first = rows[0]?.cells[0]?.[0];
  if (first === undefined || rows.some(({ cells }) => cells[0]?.[0] !== first)) return null;
  const columns = [...new Set(rows.flatMap(({ cells }) => cells.map(([name]) => name)))];
  return el("div", { class: "table", "data-testid": "grid" }, el("table", {},
    el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.map(({ cells, marked }) => {
      const values = new Map(cells);
      return el("tr", {}, ...columns.map((name) => el("td", {}, marked ? el("mark", {}, values.get(name) ?? "") : values.get(name) ?? "")));
    }))));
}
