/** On paper an answer has the passages under it that it rests on. */

/** @param {HTMLElement} log */
export function unfoldOnPaper(log) {
  /** @type {HTMLDetailsElement[]} */
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [.../** @type {NodeListOf<HTMLDetailsElement>} */ (log.querySelectorAll(".sources:not([open]), .source[data-used]:not([open])"))];
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
  });
}
