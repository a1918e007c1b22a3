/** Dropping files and folders anywhere on the page. */

import { byId } from "../core/dom.js";

/** Files of a folder that are taken at most. */
const MOST = 1000;

/** @typedef {{file: File, folder: string}} Dropped `folder` is the one that was dropped, if it was one. */

/** @param {(files: File[], folder: string) => void} onFiles Once for each folder. */
export function acceptDrops(onFiles) {
  const overlay = byId("drop");
  // Enter and leave also fire for every element passed over; the count is zero only outside.
  let depth = 0;
  /** @param {number} value */
  const setDepth = (value) => {
    depth = value;
    overlay.hidden = depth <= 0;
  };

  addEventListener("dragenter", (event) => {
    if (carriesFiles(event)) setDepth(depth + 1);
  });
  addEventListener("dragleave", (event) => {
    if (carriesFiles(event)) setDepth(depth - 1);
  });
  addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    setDepth(0);
    /** @type {Map<string, File[]>} */
    const byFolder = new Map();
    for (const { file, folder } of await dropped(/** @type {DataTransfer} */ (event.dataTransfer))) {
      byFolder.set(folder, [...(byFolder.get(folder) ?? []), file]);
    }
    for (const [folder, files] of byFolder) onFiles(files, folder);
  });
}

/** @param {DragEvent} event */
function carriesFiles(event) {
  return event.dataTransfer?.types.includes("Files") ?? false;
}

/** @param {DataTransfer} transfer @returns {Promise<Dropped[]>} */
async function dropped(transfer) {
  const loose = [...transfer.files];
  // They are gone once the event is over.
  const folders = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry?.isDirectory);
  const names = new Set(folders.map((entry) => entry?.name));
  /** @type {Dropped[]} */
  const found = loose.filter(({ name }) => !names.has(name)).map((file) => ({ file, folder: "" }));
  for (const entry of folders) {
    for (const file of await filesIn(/** @type {FileSystemDirectoryEntry} */ (entry), MOST)) found.push({ file, folder: entry?.name ?? "" });
  }
  return found;
}

/** The files in a folder and those below it; hidden ones are left out. @param {FileSystemDirectoryEntry} folder @param {number} most @returns {Promise<File[]>} */
async function filesIn(folder, most) {
  const reader = folder.createReader();
  /** @type {File[]} */
  const files = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length || files.length >= most) return files.slice(0, most);
    for (const entry of entries.filter(({ name }) => !name.startsWith("."))) {
      if (entry.isDirectory) files.push(...(await filesIn(/** @type {FileSystemDirectoryEntry} */ (entry), most - files.length)));
      else files.push(await new Promise((resolve, reject) => /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject)));
    }
  }
}
