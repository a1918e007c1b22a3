/** Tabs of the page tell each other which conversation has changed, so that they show the same. */

const channel = new BroadcastChannel("dragon");

/** Stands for all conversations. */
export const EVERY = "*";

/** Tells the other tabs. @param {string} conversation */
export function tell(conversation) {
  channel.postMessage(conversation);
}

/** @param {(conversation: string) => void} act */
export function hear(act) {
  channel.addEventListener("message", (event) => act(event.data));
}
