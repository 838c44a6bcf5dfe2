// The page of one tab: a terminal on one side, a socket to the tab's own observer on the other.
"use strict";

const FONT = '"Tontine Mono", monospace';
const notice = document.getElementById("notice");
const words = document.getElementById("words");
const again = document.getElementById("again");

function say(text) {
  words.textContent = text;
  again.hidden = false;
  notice.hidden = false;
  again.focus();
}

// What an observer copies arrives as OSC 52: only writing is possible, reading would tell it what others copied.
function copy(data) {
  const text = data.slice(data.indexOf(";") + 1);
  if (text && text !== "?") {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    navigator.clipboard?.writeText(new TextDecoder().decode(bytes)).catch(() => {});
  }
  return true;
}

function download(key) {
  const link = document.createElement("a");
  link.href = `/download/${encodeURIComponent(key)}`;
  link.download = "";
  link.click();
}

// A socket that does not open cannot say why; the same question as a plain request is answered in words.
async function reason() {
  try {
    const answer = await fetch("/tab");
    return answer.status === 426 ? "the connection was refused" : await answer.text();
  } catch {
    return "the server is gone: start `tontine observe --web` again";
  }
}

function open_terminal() {
  const terminal = new Terminal({ allowProposedApi: true, fontFamily: FONT, fontSize: 14, scrollback: 0 });
  const fit = new FitAddon.FitAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(new Unicode11Addon.Unicode11Addon());
  terminal.unicode.activeVersion = "11";
  terminal.parser.registerOscHandler(52, copy);
  // Ctrl+C copies what is selected; without a selection it is a key like others.
  terminal.attachCustomKeyEventHandler((key) => !(key.ctrlKey && key.key === "c" && terminal.hasSelection()));
  terminal.open(document.getElementById("terminal"));
  fit.fit();
  window.addEventListener("resize", () => fit.fit());
  return terminal;
}

function connect(terminal) {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/tab?width=${terminal.cols}&height=${terminal.rows}`);
  const send = (...parts) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(parts));
  let is_open = false;
  let last_words = "";
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    is_open = true;
    send("resize", terminal.cols, terminal.rows);
    terminal.focus();
  };
  socket.onmessage = ({ data }) => {
    if (typeof data !== "string") {
      notice.hidden = true;
      terminal.write(new Uint8Array(data));
      return;
    }
    const [kind, value] = JSON.parse(data);
    if (kind === "download") download(value);
    if (kind === "ended") last_words = value;
  };
  socket.onclose = async () => say(is_open ? last_words || "the observer has ended" : await reason());
  terminal.onData((text) => send("stdin", text));
  terminal.onResize(({ cols, rows }) => send("resize", cols, rows));
  window.addEventListener("focus", () => send("focus"));
  window.addEventListener("blur", () => send("blur"));
}

async function start() {
  history.replaceState(null, "", "/"); // the token has done its work
  again.onclick = () => location.reload();
  // The terminal measures its cells once, so the font has to be there first.
  await Promise.allSettled([document.fonts.load(`14px ${FONT}`), document.fonts.load(`bold 14px ${FONT}`)]);
  connect(open_terminal());
}

start();
