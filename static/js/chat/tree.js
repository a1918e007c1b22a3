/** The messages of a conversation as a tree, and the branch of it that is shown. */

/** @typedef {import("../core/types.js").Message} Message */

export class Tree {
  /** In the order in which they were written. @type {Map<string, Message>} */
  #messages = new Map();
  /** The end of the branch that is shown. @type {string | null} */
  leaf = null;

  /** @param {Message[]} [messages] @param {string | null} [leaf] */
  constructor(messages = [], leaf = null) {
    for (const message of messages) this.#messages.set(message.id, message);
    this.leaf = leaf && this.#messages.has(leaf) ? leaf : messages.at(-1)?.id ?? null;
  }

  /** Adds a message, or puts it in its place. @param {Message} message */
  set(message) {
    this.#messages.set(message.id, message);
  }

  /** @param {string} id */
  get(id) {
    return this.#messages.get(id);
  }

  get all() {
    return [...this.#messages.values()];
  }

  /** From the first question to the leaf. @returns {Message[]} */
  get path() {
    const path = [];
    for (let at = this.leaf; at !== null; ) {
      const message = this.#messages.get(at);
      if (!message) break;
      path.unshift(message);
      at = message.parent;
    }
    return path;
  }

  /** The branches a message is one of. @param {Message} message */
  siblings({ parent }) {
    return this.all.filter((other) => other.parent === parent);
  }

  /** Whether an earlier branch has the same text. @param {string} id */
  repeats(id) {
    const message = this.#messages.get(id);
    if (!message?.text.trim()) return false;
    const branches = this.siblings(message);
    return branches.slice(0, branches.indexOf(message)).some(({ text }) => text.trim() === message.text.trim());
  }

  /** Shows another branch, to its latest end. @param {string} id @param {number} step */
  branch(id, step) {
    const message = this.#messages.get(id);
    if (!message) return;
    const branches = this.siblings(message);
    let end = branches[branches.indexOf(message) + step];
    while (end) {
      this.leaf = end.id;
      const { id: parent } = end;
      end = this.all.filter((other) => other.parent === parent).at(-1);
    }
  }
}
