/** The WebSocket to the device: JSON frames, a new connection with backoff when one is lost, and whether it is silent. */

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
/** Together less than the three seconds after which one wonders. */
const QUIET_MS = 800;
const PATIENCE_MS = 1800;

export class DeviceSocket {
  /** @type {WebSocket | null} */
  #socket = null;
  #attempt = 0;
  #timer = 0;
  #requests = 0;
  #closed = false;

  /**
   * @param {object} handlers
   * @param {(frame: any) => void} handlers.onFrame
   * @param {(connected: boolean) => void} handlers.onConnection Called on every change, and after every failed attempt.
   */
  constructor({ onFrame, onConnection }) {
    this.onFrame = onFrame;
    this.onConnection = onConnection;
    addEventListener("online", () => this.connect());
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.connect();
    });
  }

  get connected() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** Connects now unless there is a connection or an attempt at one already. */
  connect() {
    if (this.#socket || this.#closed) return;
    clearTimeout(this.#timer);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/chat`);
    this.#socket = socket;
    socket.onopen = () => {
      this.#attempt = 0;
      this.onConnection(true);
    };
    socket.onmessage = (event) => this.onFrame(JSON.parse(event.data));
    socket.onclose = () => {
      this.#socket = null;
      this.#timer = setTimeout(() => this.connect(), this.#delay());
      this.onConnection(false);
    };
  }

  /** Ends the connection for good, as when the sign-in has run out. */
  close() {
    this.#closed = true;
    if (this.#socket) this.#socket.onclose = null;
    this.#socket?.close();
    this.#socket = null;
    clearTimeout(this.#timer);
  }

  /**
   * Asks for an answer to be written; a frame `began` with this id replies.
   *
   * @param {"say" | "again" | "continue"} type
   * @param {object} fields
   * @returns {string} The request's id.
   */
  write(type, fields) {
    const id = `r${++this.#requests}`;
    this.#send({ type, id, ...fields });
    return id;
  }

  /** Reads an answer from its beginning on. @param {string} id */
  watch(id) {
    this.#send({ type: "watch", id });
  }

  /** @param {string} id */
  stop(id) {
    this.#send({ type: "stop", id });
  }

  /** @param {object} frame */
  #send(frame) {
    if (this.connected) this.#socket?.send(JSON.stringify(frame));
  }

  /** Doubles with every failed attempt; jitter keeps several tabs from calling all at once. */
  #delay() {
    const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempt++);
    return ceiling * (0.75 + Math.random() / 4);
  }
}

/** Notices a device that is connected and says nothing, as when its machine is asleep or stuck. */
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
