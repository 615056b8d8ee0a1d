// SPDX-License-Identifier: Apache-2.0
// The robot's pictures: a connection a camera, open only while somebody can see it; the next picture is asked for once this one is shown.

import { byId, list, make, say, set } from "./dom.js";
import { Socket } from "./link.js";
import { long, t } from "./words.js";

const OLD_MS = 1500;
const RATE_MS = 2000;

/** Return the name of a camera without what every topic of pictures has. */
const short = (camera) => camera.replace(/\/image(_raw)?$/, "");

class Eye {
  constructor(robot, camera) {
    this.robot = robot;
    this.camera = camera;
    this.shown = [];
    this.canvas = make("canvas", { role: "img", width: 4, height: 3 });
    this.caption = make("figcaption");
    this.figure = make("figure", { "data-old": "true" }, this.canvas, this.caption);
  }

  /** Connect while it can be seen. */
  look() {
    const seen = !document.hidden && this.figure.isConnected && this.figure.checkVisibility();
    if (seen && !this.socket) {
      const path = `/camera/${encodeURIComponent(this.robot)}/${this.camera.split("/").map(encodeURIComponent).join("/")}`;
      this.socket = new Socket(path, { binary: true, heard: (frame) => this.show(frame) });
    } else if (!seen && this.socket) this.close();
    this.tell();
  }

  async show(frame) {
    const socket = this.socket;
    try {
      const picture = await createImageBitmap(frame);
      if (this.canvas.width !== picture.width || this.canvas.height !== picture.height) Object.assign(this.canvas, { width: picture.width, height: picture.height });
      this.canvas.getContext("2d").drawImage(picture, 0, 0);
      picture.close();
      this.shown.push(performance.now());
    } finally {
      requestAnimationFrame(() => socket?.send("ok"));
    }
  }

  tell() {
    const now = performance.now();
    const last = this.shown.at(-1);
    while (this.shown.length > 1 && this.shown[0] < now - RATE_MS) this.shown.shift();
    const old = last === undefined || now - last > OLD_MS;
    const rate = (this.shown.length * 1000) / RATE_MS;
    const words = last === undefined ? t("eyes.waits", short(this.camera)) : old ? t("eyes.old", long((now - last) / 1000)) : t("eyes.shows", short(this.camera), rate < 3 ? rate.toFixed(1) : Math.round(rate));
    say(this.caption, words);
    set(this.canvas, "aria-label", t("eyes.picture", short(this.camera)));
    set(this.figure, "data-old", String(old));
  }

  close() {
    this.socket?.close();
    this.socket = null;
  }
}

/** Show the pictures of the cameras that are chosen; at first the first one. */
export class Cameras {
  constructor() {
    this.eyes = new Map();
    this.chosen = new Map();
    setInterval(() => this.look(), 500);
    document.addEventListener("visibilitychange", () => this.look());
  }

  look() {
    for (const eye of this.eyes.values()) eye.look();
  }

  show(name, robot) {
    const cameras = robot.cameras ?? [];
    if (!this.chosen.has(name)) this.chosen.set(name, new Set());
    const chosen = this.chosen.get(name);
    if (!chosen.size && cameras.length && !chosen.emptied) chosen.add(cameras[0]);
    const wanted = cameras.filter((camera) => chosen.has(camera));
    const key = (camera) => `${name} ${camera}`;
    for (const [id, eye] of this.eyes) {
      if (wanted.some((camera) => key(camera) === id)) continue;
      eye.close();
      this.eyes.delete(id);
    }
    for (const camera of wanted) if (!this.eyes.has(key(camera))) this.eyes.set(key(camera), new Eye(name, camera));
    list(byId("eyes"), wanted.length ? wanted : [""], (camera) => (camera ? key(camera) : ""), (camera) => (camera ? this.eyes.get(key(camera)).figure : make("p", { class: "none" })), (node, camera) => {
      if (!camera) say(node, t(cameras.length ? "eyes.unchosen" : "eyes.none"));
    });
    list(byId("eyes-choice"), cameras.length > 1 ? cameras : [], (camera) => camera, (camera) => make("button", { type: "button", text: short(camera), onclick: () => this.choose(name, camera) }), (node, camera) => set(node, "aria-pressed", String(chosen.has(camera))));
    this.look();
  }

  choose(name, camera) {
    const chosen = this.chosen.get(name);
    if (!chosen.delete(camera)) chosen.add(camera);
    chosen.emptied = !chosen.size;
  }
}
