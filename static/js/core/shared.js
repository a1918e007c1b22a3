/** The page as an installed app: its worker, what other apps share with it, and the keyboard of a phone. */

/** Where the worker leaves what was shared. */
const SHARED = "shared";

/** Lets the page open while the device does not answer; only where the browser allows it, which is on this machine or by HTTPS. */
export function install() {
  navigator.serviceWorker?.register("/service-worker.js").catch(() => {});
}

/**
 * Takes what another app has shared since.
 *
 * @param {(files: File[]) => void} onFiles
 * @param {(text: string) => void} onText
 */
export async function takeShared(onFiles, onText) {
  const parameters = new URLSearchParams(location.search);
  const text = parameters.get("shared");
  if (text === null) return;
  history.replaceState(null, "", location.pathname + location.hash);
  if (text) onText(text);
  const kept = await caches.open(SHARED);
  const files = [];
  for (const request of await kept.keys()) {
    const response = await kept.match(request);
    await kept.delete(request);
    if (response) files.push(new File([await response.blob()], decodeURIComponent(response.headers.get("X-Name") ?? "shared.txt")));
  }
  if (files.length) onFiles(files);
}

/** Where a keyboard covers the page instead of making it smaller (Safari), the page makes itself smaller. */
export function makeRoomForKeyboard() {
  const { visualViewport: seen } = window;
  seen?.addEventListener("resize", () => {
    const covered = innerHeight - seen.height * seen.scale;
    document.documentElement.style.setProperty("--covered", covered > 80 ? `${Math.round(covered)}px` : "0px");
    scrollTo(0, 0);
  });
}
