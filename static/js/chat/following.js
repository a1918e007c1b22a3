/** Whether the page follows the text as it grows: at its end it does, and further up it stays. */

import { byId } from "../core/dom.js";

/** Distance in pixels from the end within which the page follows. */
const NEAR = 96;

export class Following {
  #scroll = byId("scroll");
  #toEnd = byId("to-end");
  #on = true;
  #top = 0;
  #height = 0;

  /** @param {HTMLElement} log What grows. */
  constructor(log) {
    this.#scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#toEnd.addEventListener("click", () => this.toEnd());
    const observer = new ResizeObserver(() => this.#resized());
    observer.observe(log);
    observer.observe(this.#scroll);
  }

  /** Goes to the end, and follows it from now on. */
  toEnd() {
    this.#on = true;
    this.#follow();
  }

  /** Goes to the beginning, and stays there. */
  toTop() {
    this.#on = false;
    this.#scroll.scrollTop = 0;
  }

  /** Does something that draws all anew, and is then where it was. @param {() => Promise<void>} redraw */
  async keep(redraw) {
    const { scrollTop } = this.#scroll;
    const on = this.#on;
    await redraw();
    this.#on = on;
    if (!on) this.#scroll.scrollTop = scrollTop;
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroll;
    // Growing text moves the end away too; only going up means that the person wants to stay.
    if (scrollTop < this.#top) this.#on = false;
    const left = scrollHeight - scrollTop - clientHeight;
    if (left < NEAR) this.#on = true;
    this.#toEnd.hidden = left < 2 * NEAR;
    this.#top = scrollTop;
  }

  /** The last line that is read stays where it is above the question, whether or not a keyboard opens below; so does the beginning. */
  #resized() {
    const { clientHeight } = this.#scroll;
    if (!this.#on && this.#height && this.#scroll.scrollTop) this.#scroll.scrollTop += this.#height - clientHeight;
    this.#height = clientHeight;
    this.#follow();
  }

  #follow() {
    if (this.#on) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
}
