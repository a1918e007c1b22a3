/** Puts the page together: which part tells which other part what. */

import { getStatus, session } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { Documents } from "./documents.js";
import { byId } from "./dom.js";
import { acceptDrops } from "./drop.js";
import { setUpPanel } from "./panel.js";
import { DeviceSocket } from "./socket.js";
import { PeerStatus, showConnection } from "./status.js";
import { showWelcome, updateWelcome } from "./welcome.js";

const newChat = /** @type {HTMLButtonElement} */ (byId("new-chat"));
const status = new PeerStatus();

const socket = new DeviceSocket({
  onFrame: (frame) => (frame.type === "status" ? status.setPeer(frame.peer) : chat.receive(frame)),
  onConnection: (connected) => {
    showConnection(connected);
    composer.setConnected(connected);
    if (connected) return;
    status.setPeer(null);
    chat.disconnected();
    // A refused upgrade looks like any lost connection; this tells whether sign-in is what is missing.
    loadStatus();
  },
});

const chat = new Chat({
  socket,
  joint: () => status.joint,
  onChange: ({ busy, empty }) => {
    composer.setBusy(busy);
    newChat.disabled = empty;
    showWelcome(empty);
    // The socket tells of changes of state only; this brings the round trip up to date.
    if (!busy) loadStatus();
  },
});

const composer = new Composer({
  onAsk: (text, isPrivate) => chat.ask(text, isPrivate),
  onStop: () => {
    composer.setStopping();
    chat.stop();
  },
});

const documents = new Documents((state) => {
  byId("panel-count").textContent = state.ready.length ? String(state.ready.length) : "";
  updateWelcome(state);
});

async function loadStatus() {
  try {
    const { model, peer } = await getStatus();
    status.setModel(model);
    if (socket.connected) status.setPeer(peer);
  } catch {
    // The banner, or the sign-in notice, already says it.
  }
}

function showSignedOut() {
  socket.close();
  byId("sign-in-example").textContent = `${location.origin}/sign-in?key=…`;
  byId("app").hidden = true;
  byId("signed-out").hidden = false;
}

session.addEventListener("signed-out", showSignedOut);
newChat.addEventListener("click", () => {
  chat.clear();
  composer.focus();
});
byId("connection-retry").addEventListener("click", () => socket.connect());
byId("step-ask-button").addEventListener("click", () => composer.focus());
for (const id of ["upload-button", "step-upload-button"]) {
  byId(id).addEventListener("click", () => byId("upload").click());
}
acceptDrops((files) => documents.upload(files));
setUpPanel();
socket.connect();
loadStatus();
documents.load();
