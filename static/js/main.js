/** Puts the page together: which part tells which other part what. */

import { ApiError, getStatus, messageOf, session } from "./core/api.js";
import { Chat } from "./chat/chat.js";
import { Composer } from "./chat/composer.js";
import { ConversationList } from "./chat/conversations.js";
import { Documents } from "./documents/documents.js";
import { confirmed } from "./core/confirm.js";
import { byId } from "./core/dom.js";
import { Folders } from "./documents/folders.js";
import { acceptDrops } from "./documents/drop.js";
import { showFound } from "./chat/found.js";
import { Inspector } from "./inspector/inspector.js";
import { setUpKeyboard, showKeys } from "./core/keyboard.js";
import { showLedger } from "./inspector/ledger.js";
import { showLive } from "./inspector/live.js";
import { hideWho, showWho } from "./inspector/provenance.js";
import { Projects } from "./chat/projects.js";
import { Scope } from "./chat/scope.js";
import { unfoldOnPaper } from "./chat/sources.js";
import { pickModel } from "./core/models.js";
import { install, makeRoomForKeyboard, takeShared } from "./core/shared.js";
import { Settings } from "./core/settings.js";
import { DeviceSocket, Silence } from "./core/socket.js";
import { PeerStatus, showConnection } from "./core/status.js";
import { fillIn, listed, t } from "./core/strings.js";
import { showWelcome } from "./chat/welcome.js";

const LIVE_MS = 500;
/** How often watched folders are asked for while they are seen. */
const FOLDERS_MS = 2000;

/** Tabs tell each other which conversation has changed, so that they show the same; this stands for all. */
const EVERY = "*";
const tabs = new BroadcastChannel("dragon");
/** @param {string} conversation */
const tell = (conversation) => tabs.postMessage(conversation);

/** The place in the branch of the answer shown in the inspector: the selected one's, or else the last. @type {number | null} */
let inspected = null;
/** Unknown until the device has said. @type {import("./documents/documents.js").DocumentState | null} */
let stored = null;
/** Until they are listed there may be some. */
let hasDocuments = true;

fillIn();
const status = new PeerStatus();
const scope = new Scope();
const settings = new Settings(
  () => drawPrivacy(),
  (said) => {
    byId("upcoming").hidden = !said;
    byId("upcoming-text").textContent = said;
  },
);
const inspector = new Inspector((panel) => {
  drawPanels();
  if (panel === "documents") folders.load();
});

const silence = new Silence((silent) => showConnection(silent ? "quiet" : null));

const socket = new DeviceSocket({
  onFrame: (frame) => {
    silence.heard();
    if (frame.type === "status") status.setPeer(frame.peer);
    else chat.receive(frame);
  },
  onConnection: (connected) => {
    silence.listen(connected && chat.busy);
    // When another model takes over, nothing is wrong.
    const lost = !connected && !settings.models.awaited;
    showConnection(lost ? "lost" : null);
    if (lost) status.setPeer(null);
    composer.setConnected(connected);
    if (connected) {
      chat.watch();
      settings.models.resume();
    } else chat.disconnected();
    // There may be another model. A refused upgrade looks like any lost connection; this tells whether sign-in is what is missing.
    loadStatus();
  },
});

const chat = new Chat({
  socket,
  project: () => projects.current,
  params: () => ({ ...settings.params, ...scope.params, ...(isPrivate() && { private: true, cloud: "never" }), provenance: true }),
  onChange: changed,
  onBegun: (conversation) => {
    history.replaceState(null, "", `#${conversation.id}`);
    list.load();
    projects.load();
  },
  onRefused: (reason, text) => composer.refuse(reason, text),
  onInspect: (depth) => {
    inspected = depth;
    inspector.show("ledger");
  },
  quotes: () => settings.quotes,
  reachable: () => status.joint && settings.joins && settings.rung !== "never",
  sends,
  mayAsk: async () => !isPrivate() || (await confirmed({ title: t("answer.consent"), text: t("answer.consent.text", { what: sends() }), yes: t("answer.ask") })) === "yes",
  hasDocuments: () => hasDocuments,
  add: () => documents.choose(),
  onWritten: (conversation) => tell(conversation),
});

const composer = new Composer({
  onAsk: (text) => {
    inspected = null;
    chat.ask(text);
  },
  onStop: stop,
  leaves: () => settings.leaves,
  onPrivate: (on) => chat.setPrivate(on),
});

const projects = new Projects({
  onChoose: () => {
    list.load();
    openConversation(null);
  },
  onLoaded: offerProjects,
  onDelete: (name) => documents.deleteCollection(name),
  quotes: () => settings.quotes,
});

const list = new ConversationList({
  projects: () => ({ current: projects.current, names: projects.all.map(({ name }) => name) }),
  onMoved: () => projects.load(),
  onOpen: async (id, search) => {
    await openConversation(id);
    showFound(byId("log"), search);
  },
  onRename: (conversation) => {
    tell(conversation.id);
    if (chat.conversation?.id === conversation.id) Object.assign(chat.conversation, conversation);
    changed();
  },
  onDelete: (id) => {
    tell(id);
    if (chat.conversation?.id === id) openConversation(null);
  },
  onError: (message) => composer.refuse(message),
});

const documents = new Documents((state) => {
  const deleted = [...(stored?.known ?? [])].some((id) => !state.known.has(id));
  stored = state;
  // What is stored of conversations has no longer anything of it, or less.
  if (deleted) {
    tell(EVERY);
    list.load();
    followTab();
  }
  if (hasDocuments !== state.known.size > 0) {
    hasDocuments = state.known.size > 0;
    chat.documentsChanged();
  }
  byId("panel-count").textContent = state.files.length ? String(state.files.length) : "";
  scope.setFiles(state.files, state.known);
  projects.load();
  drawWelcome();
}, () => inspector.show("documents"), readyToType);

const folders = new Folders(() => documents.load());

function changed() {
  const { busy, conversation } = chat;
  composer.setBusy(busy);
  silence.listen(busy && socket.connected);
  list.setCurrent(conversation?.id ?? null);
  const project = activeProject();
  scope.setProject(project);
  offerProjects();
  byId("title").textContent = [project, conversation?.title ?? t("sidebar.new")].filter(Boolean).join(" · ");
  document.title = conversation ? `${conversation.title} · DRAGON` : "DRAGON";
  drawPrivacy();
  drawWelcome();
  drawPanels();
  // The socket tells of changes of state only; this brings the round trip up to date.
  if (!busy) loadStatus();
}

/** New documents may go into any. */
function offerProjects() {
  documents.setProject(activeProject(), projects.all.map(({ name }) => name));
}

/** The project of what is open, or of a question that would begin a conversation; empty: none. */
function activeProject() {
  return chat.conversation ? chat.conversation.project ?? "" : projects.current;
}

/** Whether a question that is asked now stays on the device: the chat is private, or the settings never ask the cloud. */
function isPrivate() {
  return chat.isPrivate || settings.rung === "never";
}

function drawPrivacy() {
  composer.setPrivate(isPrivate(), settings.rung === "never");
  status.setRung(settings.rung === "never" || !chat.isPrivate ? settings.rung : "private", chat.openly);
}

/** What the cloud would get with a question, in words. */
function sends() {
  const instruction = !settings.quotes && projects.instruction(activeProject());
  return listed([t("sends.question"), ...(instruction ? [t("sends.instruction")] : []), settings.what(hasDocuments), t("sends.settings")]);
}

function drawWelcome() {
  const project = activeProject();
  const files = stored?.files.filter(({ collection }) => !project || collection === project) ?? null;
  showWelcome({ visible: chat.empty, files, waiting: stored?.waiting ?? 0, project, instruction: projects.instruction(project), alone: isPrivate() }, {
    add: (file) => documents.upload([file]),
    choose: () => documents.choose(),
    ask: (question, only) => {
      if (only) scope.set([only]);
      chat.ask(question);
    },
  });
}

function drawPanels() {
  const view = chat.answerAt(inspected);
  const message = view?.message ?? null;
  if (inspector.open === "who") showWho(view);
  else hideWho();
  if (inspector.open === "live") showLive(message, chat.last?.progress ?? { tokens: 0, ms: 0 }, status.roundTrip);
  if (inspector.open === "ledger") showLedger(message, message && {
    question: chat.questionOf(message),
    follows: chat.follows(message),
  });
}

function stop() {
  composer.setStopping();
  chat.stop();
}

/** @param {string | null} id */
async function openConversation(id) {
  inspected = null;
  try {
    await chat.open(id);
  } catch (error) {
    composer.refuse(messageOf(error));
    if (error instanceof ApiError && error.status === 404) await chat.open(null);
  }
  scope.set(chat.last?.message.asked?.documents ?? null);
  const address = chat.conversation ? `#${chat.conversation.id}` : location.pathname;
  if (location.hash !== `#${chat.conversation?.id ?? ""}`) history.pushState(null, "", address);
  inspector.closeSidebar();
  readyToType();
}

/** On a touch screen that would bring up the keyboard over what one wants to read. */
function readyToType() {
  if (!matchMedia("(pointer: coarse)").matches) composer.focus();
}

async function loadStatus() {
  try {
    const found = await getStatus();
    status.setModel(found.model);
    byId("model-name").textContent = found.model;
    settings.setStatus(found);
    documents.setAccepted(found.accepted);
    byId("in-use-text").textContent = t(found.quotes ? "welcome.model.quotes" : "welcome.model", { name: found.model });
    byId("in-use").hidden = false;
    document.documentElement.toggleAttribute("data-household", found.household);
    drawPrivacy();
    if (socket.connected) status.setPeer(found.peer);
  } catch {
    // The banner, or the sign-in notice, already says it.
  }
}

function showSignedOut() {
  socket.close();
  byId("sign-in-example").textContent = `${location.origin}/sign-in?code=…`;
  byId("app").hidden = true;
  byId("signed-out").hidden = false;
}

unfoldOnPaper(byId("log"));

const singleLetters = () => settings.values.keys;
setUpKeyboard(
  {
    [t("keys.chat")]: [
      { keys: "n", label: t("sidebar.new"), act: () => openConversation(null) },
      { keys: "/", label: t("keys.chat.write"), act: () => composer.focus() },
      { keys: "x", label: t("keys.chat.private"), act: () => composer.togglePrivate() },
      { keys: "r", label: t("answer.again"), act: () => chat.again() },
      { keys: "e", label: t("keys.chat.edit"), act: () => chat.edit() },
      { keys: "c", label: t("keys.chat.copy"), act: () => chat.last?.copy() },
      { keys: "[", label: t("branch.back"), act: () => chat.branch(-1) },
      { keys: "]", label: t("branch.next"), act: () => chat.branch(1) },
    ],
    [t("keys.page")]: [
      { keys: "Ctrl+K", label: t("sidebar.search"), act: searchConversations },
      { keys: "d", label: t("panel.documents"), act: () => inspector.toggle("documents") },
      { keys: "l", label: t("panel.live"), act: () => inspector.toggle("live") },
      { keys: "w", label: t("panel.ledger"), act: () => inspector.toggle("ledger") },
      { keys: "p", label: t("answer.provenance"), act: () => inspector.toggle("who") },
      { keys: "s", label: t("sidebar.settings"), act: () => settings.open() },
    ],
  },
  singleLetters,
  () => {
    if (inspector.dismiss()) return true;
    if (chat.busy) stop();
    return chat.busy;
  },
);

/** Another tab has written in the conversation that is open, or deleted it. */
async function followTab() {
  try {
    await chat.reread();
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) openConversation(null);
  }
}

function searchConversations() {
  inspector.openSidebar();
  list.focusSearch();
}

tabs.addEventListener("message", ({ data: conversation }) => {
  list.load();
  if (conversation === EVERY) documents.load();
  if (conversation === chat.conversation?.id || conversation === EVERY) followTab();
});
session.addEventListener("signed-out", showSignedOut);
addEventListener("popstate", () => openConversation(location.hash.slice(1) || null));
for (const [id, open] of /** @type {const} */ ([["open-settings", () => settings.open()], ["open-help", showKeys]])) {
  byId(id).addEventListener("click", () => {
    // It would cover the conversation when the dialog is closed.
    inspector.closeSidebar();
    open();
  });
}
for (const id of ["choose-model", "upcoming-open"]) byId(id).addEventListener("click", () => settings.open("models"));
byId("model").addEventListener("click", () => pickModel(byId("model"), (name) => (name ? settings.models.choose(name) : settings.open("offers"))).catch((error) => composer.refuse(messageOf(error))));
byId("new-chat").addEventListener("click", () => openConversation(null));
byId("connection-retry").addEventListener("click", () => socket.connect());
for (const id of ["upload-button", "attach"]) byId(id).addEventListener("click", () => documents.choose());
acceptDrops((files, folder) => {
  documents.upload(files, folder);
  inspector.show("documents");
});
setInterval(() => {
  if (chat.busy && inspector.open === "live" && inspected === null) drawPanels();
}, LIVE_MS);
setInterval(() => {
  if (inspector.open === "documents" && !document.hidden) folders.load();
}, FOLDERS_MS);
// Only now does every button do something.
byId("app").hidden = false;
install();
makeRoomForKeyboard();
takeShared((files) => {
  documents.upload(files);
  inspector.show("documents");
}, (text) => composer.fill(text));
socket.connect();
documents.load();
list.load();
openConversation(location.hash.slice(1) || null);
