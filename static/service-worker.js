/**
 * Keeps the page's own files, so that it opens while the device does not answer, and takes what
 * other apps share. Answers, documents and conversations are never kept here.
 */

const SHELL = "shell";
/** What was shared and is not taken by the page yet; `core/shared.js` takes it. */
const SHARED = "shared";

addEventListener("install", (event) => event.waitUntil(skipWaiting()));
addEventListener("activate", (event) => event.waitUntil(clients.claim()));

addEventListener("fetch", (event) => {
  const { method, url, mode } = event.request;
  const { origin, pathname } = new URL(url);
  if (origin !== location.origin) return;
  if (method === "POST" && pathname === "/share") event.respondWith(share(event.request));
  else if (method === "GET" && pathname.startsWith("/static/")) event.respondWith(newest(event.request, event.request));
  else if (method === "GET" && pathname === "/" && mode === "navigate") event.respondWith(newest(event.request, "/"));
});

/** What the device has now, or else what was kept of it. @param {Request} request @param {Request | string} name */
async function newest(request, name) {
  const kept = await caches.open(SHELL);
  try {
    const response = await fetch(request);
    // Only the page itself: how to sign in is asked of the device each time.
    if (response.status === 200) await kept.put(name, response.clone());
    else if (response.status === 401) await kept.delete(name);
    return response;
  } catch (error) {
    const known = await kept.match(name);
    if (known) return known;
    throw error;
  }
}

/** @param {Request} request */
async function share(request) {
  const form = await request.formData();
  const kept = await caches.open(SHARED);
  let number = 0;
  for (const file of form.getAll("files")) {
    if (!(file instanceof File)) continue;
    await kept.put(`/shared/${Date.now()}-${number++}`, new Response(file, { headers: { "X-Name": encodeURIComponent(file.name) } }));
  }
  const words = ["title", "text", "url"].map((name) => form.get(name)).filter((value) => typeof value === "string" && value.trim());
  const text = encodeURIComponent([...new Set(words)].join("\n"));
  return Response.redirect(text ? `/?shared=${text}` : "/?shared", 303);
}
