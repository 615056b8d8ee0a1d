// SPDX-License-Identifier: Apache-2.0
// A WebSocket that comes back by itself, and the acts sent over it.

import { t } from "./words.js";

const FIRST_MS = 200;
const LONGEST_MS = 1000;
const DID_MS = 6000;
const SILENT_MS = 5000;

const address = (path) => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;

/** Keep a WebSocket open: after it has closed, try again after 0.2 s, then at longer intervals up to 1 s. */
export class Socket {
  constructor(path, { opened = () => {}, heard = () => {}, closed = () => {}, binary = false } = {}) {
    Object.assign(this, { path, opened, heard, closed, binary, wait: FIRST_MS, ended: false });
    this.open();
  }

  get ready() {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  open() {
    clearTimeout(this.timer);
    const socket = (this.socket = new WebSocket(address(this.path)));
    if (this.binary) socket.binaryType = "blob";
    socket.onopen = () => {
      this.wait = FIRST_MS;
      this.opened();
    };
    socket.onmessage = (event) => this.socket === socket && this.heard(event.data);
    socket.onclose = () => {
      if (this.socket !== socket || this.ended) return;
      this.closed();
      this.timer = setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(this.wait * 2, LONGEST_MS);
    };
  }

  send(text) {
    if (this.ready) this.socket.send(text);
    return this.ready;
  }

  again() {
    this.socket.close();
  }

  close() {
    this.ended = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}

/** Hold the connection for state and acts: hand each message on, and send acts that are answered exactly once. */
export class Link {
  constructor({ heard, changed }) {
    this.acts = new Map();
    this.number = 0;
    this.lastHeard = null;
    this.everOpen = false;
    this.refused = false;
    this.changed = changed;
    this.socket = new Socket("/ws", {
      opened: () => {
        this.everOpen = true;
        this.refused = false;
        this.lastHeard = performance.now();
        changed();
      },
      heard: (text) => {
        this.lastHeard = performance.now();
        const message = JSON.parse(text);
        if (message.t === "did") this.did(message);
        else if (!heard(message)) this.socket.again();
      },
      closed: () => {
        this.askWhy();
        for (const id of [...this.acts.keys()]) this.did({ id, ok: false, message: t("did.lost") });
        changed();
      },
    });
    setInterval(() => {
      if (this.up && performance.now() - this.lastHeard > SILENT_MS) this.socket.again();
    }, 1000);
  }

  get up() {
    return this.socket.ready;
  }

  /** Return for how many seconds nothing has come. */
  get silent() {
    return this.lastHeard === null ? 0 : (performance.now() - this.lastHeard) / 1000;
  }

  /** Find out whether the node is there and does not let this page in: a WebSocket does not say why it was closed. */
  async askWhy() {
    const answer = await fetch("/", { cache: "no-store" }).catch(() => null);
    this.refused = answer?.status === 403;
    this.changed();
  }

  /** Send an act. Resolve with {ok, message} in any case. */
  act(act, robot, about = {}) {
    const id = ++this.number;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.did({ id, ok: false, message: t("did.late") }), DID_MS);
      this.acts.set(id, { resolve, timer });
      if (!this.socket.send(JSON.stringify({ ...about, t: "do", id, act, robot }))) this.did({ id, ok: false, message: t("did.lost") });
    });
  }

  did({ id, ok, message }) {
    const waiting = this.acts.get(id);
    if (!waiting) return;
    this.acts.delete(id);
    clearTimeout(waiting.timer);
    waiting.resolve({ ok, message });
  }
}
