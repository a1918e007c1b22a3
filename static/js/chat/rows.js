/** Rows that an answer quotes of a table, shown as one: sorted by a column, and copied with tabs. */

import { framed } from "../core/controls.js";
import { el } from "../core/dom.js";

/** @typedef {import("../core/types.js").Source} Source */

const ROWS = " | ", CELLS = "; ", NAME = ": ";
const EXTREME = /\b(?:MAX|MIN)\(/, GROUPED = /\bGROUP BY\b/;
const NOTE = / \([^()]*\)$/;
const order = new Intl.Collator(undefined, { numeric: true });

/**
 * A text as rows of cells, the columns' names first; nothing if it is no rows of the same columns.
 *
 * @param {string} text
 * @returns {string[][]}
 */
export function rowsOf(text) {
  const rows = text.split(ROWS).map((row) => row.split(CELLS).map((cell) => cell.split(NAME)));
  const names = rows[0].map(([name]) => name);
  const alike = rows.every((row) => row.length === names.length && row.every((cell, at) => cell.length > 1 && cell[0] === names[at]));
  if (!alike || names.length < 2) return [];
  return [names, ...rows.map((row) => row.map(([, ...value]) => value.join(NAME)))];
}

/**
 * The figures of groups, "Amount in all by Shop: Aldi: 12; Lidl: 9", as rows; nothing if it is no such text.
 *
 * @param {string} text
 * @returns {string[][]}
 */
export function groupsOf(text) {
  const [, what, name, figures] = /^([^:]*)(?: by |, )([^:]+): (.*)$/.exec(text) ?? ["", "", "", ""];
  const rows = figures.split(CELLS).map((each) => each.split(/: (?=[^:]*$)/));
  return rows.length > 1 && rows.every((row) => row.length > 1) ? [[name, what], ...rows] : [];
}

/** Puts tables in place of the rows that an answer quotes. @param {HTMLElement} body @param {Source[]} sources */
export function tabulate(body, sources) {
  untabulate(body);
  const queries = new Map(sources.map(({ text, query }) => [text.trim(), query ?? ""]));
  for (const block of body.querySelectorAll("p")) {
    const marks = [...block.querySelectorAll(".cite")];
    const text = [...block.childNodes].filter((node) => !marks.includes(/** @type {Element} */ (node))).map(({ textContent }) => textContent).join("").trim();
    const query = queries.get(text) ?? "", grouped = GROUPED.test(query);
    // What makes it the highest or the lowest, or is not given, is no part of its last cell.
    const [note] = grouped || EXTREME.test(query) ? NOTE.exec(text) ?? [""] : [""];
    const quoted = text.slice(0, text.length - note.length);
    const rows = grouped ? groupsOf(quoted) : query ? rowsOf(quoted) : [];
    if (!rows.length) continue;
    block.hidden = true;
    block.after(el("div", { class: "rows", "data-testid": "rows" }, framed(tableOf(rows)), note.trim().slice(1, -1), ...marks));
  }
}

/** Shows the text again that tables stand for. @param {HTMLElement} body */
export function untabulate(body) {
  for (const table of body.querySelectorAll(".rows")) {
    const block = /** @type {HTMLElement} */ (table.previousElementSibling);
    block.append(...table.querySelectorAll(".cite"));
    block.hidden = false;
    table.remove();
  }
}

/** An answer that is a table as it stands, with tabs between cells; empty of any other. @param {HTMLElement} body */
export function withTabs(body) {
  if (body.querySelector(".block > :not(.rows, [hidden])")) return "";
  const rows = /** @type {NodeListOf<HTMLTableRowElement>} */ (body.querySelectorAll(".rows tr"));
  return [...rows].map((row) => [...row.cells].map(({ textContent }) => textContent).join("\t")).join("\n");
}

/** @param {string[][]} rows */
function tableOf([names, ...rows]) {
  const lines = rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell))));
  const found = el("tbody", {}, ...lines);
  const heads = names.map((name, at) => {
    const head = el("th", { scope: "col" }, name);
    if (rows.length < 2) return head;
    const sort = el("button", { class: "sort", type: "button" }, name);
    sort.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      lines.sort((one, other) => (down ? -1 : 1) * order.compare(one.cells[at].textContent ?? "", other.cells[at].textContent ?? ""));
      found.append(...lines);
    });
    head.replaceChildren(sort);
    return head;
  });
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads)), found);
}
