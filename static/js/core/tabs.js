/** Tabs of the page tell each other what has changed, so that they show the same. */

/** @typedef {{list?: true, conversation?: string}} Change */

const channel = new BroadcastChannel("dragon");

/** Tells the other tabs. @param {Change} change */
export function tell(change) {
  channel.postMessage(change);
}

/** @param {(change: Change) => void} act */
export function hear(act) {
  channel.addEventListener("message", (event) => act(event.data));
}
