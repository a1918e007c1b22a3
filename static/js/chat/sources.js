/** The passages an answer rests on, in two columns: the person's own and the cloud's. */

import { getText } from "../core/api.js";
import { el, icon } from "../core/dom.js";
import { t } from "../core/strings.js";

/** @typedef {import("../core/types.js").Source} Source */
/** @typedef {import("../core/types.js").Side} Side */

/** Characters shown around a passage. */
const AROUND = 320;

export class SourcesView {
  element = el("div", { class: "sources", role: "group", "aria-label": t("sources"), hidden: true });

  /** @param {Source[]} sources @param {Source[]} closest Passages shown where there is no source. */
  show(sources, closest) {
    const columns = /** @type {Side[]} */ (["private", "public"]).flatMap((side) => {
      const passages = new Set(); // two hops of an answer may share one
      const own = sources
        .filter((source) => source.side === side)
        .sort((one, other) => other.weight - one.weight)
        .filter(({ id, start, text }) => passages.size < passages.add(`${id} ${start} ${text}`).size);
      return own.length ? [column(side, own)] : [];
    });
    if (!columns.length && closest.length) columns.push(column("private", closest, t("sources.closest")));
    this.element.replaceChildren(...columns);
    this.element.hidden = columns.length === 0;
  }
}

/** @param {Side} side @param {Source[]} sources @param {string} origin */
function column(side, sources, origin = t(`sources.${side}.origin`)) {
  const heading = el("p", { class: "side-head" }, icon(`icon-${side}`), t(`sources.${side}`), el("span", {}, origin));
  return el("div", { class: "side", "data-side": side }, heading, el("ul", {}, ...sources.map((source) => el("li", {}, row(source)))));
}

/** @param {Source} source */
function row(source) {
  const percent = Math.round(Math.min(1, Math.max(0, source.weight)) * 100);
  const fill = el("span", { class: "weight-fill" });
  fill.style.width = `${percent}%`;
  const passage = el("blockquote", { class: "passage", "data-testid": "passage", tabindex: 0 }, el("mark", {}, source.text));
  const details = el(
    "details",
    { class: "source", "data-testid": "source", "data-side": source.side },
    el(
      "summary",
      {},
      icon("icon-chevron", "icon chevron"),
      el("span", { class: "visually-hidden" }, t(`sources.${source.side}.title`)),
      el("span", { class: "source-title", title: source.title }, source.title),
      el("span", { class: "source-start" }, source.text.trim().replace(/^#+ /, "")),
      el("span", { class: "source-page" }, source.page ? t("sources.page", { page: source.page }) : ""),
      // What is only close had no share in the answer.
      ...(source.weight > 0 ? [el("span", { class: "weight", title: t("sources.weight") }, el("span", { class: "weight-bar" }, fill), `${percent || "<1"} %`)] : []),
    ),
    passage,
    ...(source.query ? [el("pre", { class: "source-query", "data-testid": "source-query" }, source.query)] : []),
  );
  if (source.side === "private") details.addEventListener("toggle", () => surround(passage, source), { once: true });
  return details;
}

/** Shows the passage where it stands in its document. @param {HTMLElement} passage @param {Source} source */
async function surround(passage, source) {
  const { id, start, end } = source;
  if (start == null || end == null || end <= start) return;
  try {
    const around = await getText(id, Math.max(0, start - AROUND), end + AROUND);
    // Offsets count characters; a string's count UTF-16 units.
    const characters = [...around.text];
    const [from, to] = [start - around.start, end - around.start];
    const more = (/** @type {boolean} */ there) => (there ? "…" : "");
    passage.replaceChildren(
      more(around.start > 0) + characters.slice(0, from).join("").trimStart(),
      el("mark", {}, characters.slice(from, to).join("")),
      characters.slice(to).join("").trimEnd() + more(around.end < around.length),
    );
    const mark = passage.querySelector("mark");
    passage.scrollTop = (mark?.offsetTop ?? 0) - passage.clientHeight / 3;
  } catch {
    // The document is gone, and its passages with it.
  }
}
