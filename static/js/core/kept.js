/** What this browser keeps for the page; nothing where its storage is full or forbidden. */

/** @template T @param {string} key @param {T} otherwise @returns {T} */
export function kept(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null") ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** @param {string} key @param {unknown} value */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // The page does without.
  }
}
