/** Notices a device that is connected and says nothing, as when its machine is asleep or stuck. */

/** Together less than the three seconds after which one wonders. */
const QUIET_MS = 800;
const PATIENCE_MS = 1800;

export class Silence {
  #timer = 0;
  #heard = 0;
  #silent = false;

  /** @param {(silent: boolean) => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
  }

  /** Something came from the device. */
  heard() {
    this.#heard = performance.now();
    this.#tell(false);
  }

  /** Listens as long as something is waited for. @param {boolean} waiting */
  listen(waiting) {
    if (waiting === this.#timer > 0) return;
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (waiting) this.#again();
    else this.#tell(false);
  }

  #again() {
    this.#timer = setTimeout(() => this.#ask(), QUIET_MS);
  }

  async #ask() {
    const asked = performance.now();
    const timer = this.#timer;
    if (asked - this.#heard > QUIET_MS) {
      try {
        await fetch("/health", { signal: AbortSignal.timeout(PATIENCE_MS) });
        this.heard();
      } catch {
        // Unless something came by the other way meanwhile.
        if (this.#timer === timer && this.#heard < asked) this.#tell(true);
      }
    }
    if (this.#timer === timer) this.#again();
  }

  /** @param {boolean} silent */
  #tell(silent) {
    if (silent === this.#silent) return;
    this.#silent = silent;
    this.onChange(silent);
  }
}
