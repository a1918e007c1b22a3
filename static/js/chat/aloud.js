/** Reads answers aloud by voices of this device; those of the browser's maker would be sent the text. */

import { locale } from "../core/strings.js";

/** The voices may come later than they are first asked for. */
globalThis.speechSynthesis?.getVoices();
addEventListener("pagehide", stopReading);

/** The best voice on this device for the language of the page. */
function voice() {
  const own = globalThis.speechSynthesis?.getVoices().filter(({ localService }) => localService) ?? [];
  const speaks = (/** @type {number} */ letters) => own.find(({ lang }) => lang.replace("_", "-").slice(0, letters) === locale.slice(0, letters));
  return speaks(5) ?? speaks(2);
}

/** Whether anything can be read here. */
export const readable = () => voice() !== undefined;

export const reading = () => globalThis.speechSynthesis?.speaking ?? false;

/** @param {string[]} texts Each is read in one go. */
export function read(texts) {
  stopReading();
  for (const text of texts) {
    const said = new SpeechSynthesisUtterance(text);
    said.voice = voice() ?? null;
    said.lang = said.voice?.lang ?? locale;
    speechSynthesis.speak(said);
  }
}

export function stopReading() {
  globalThis.speechSynthesis?.cancel();
}
