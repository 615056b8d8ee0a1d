// SPDX-License-Identifier: Apache-2.0
// The halt: its own connection, and what is known of it. STOPPED is only ever what the gate's latched state says.

import { byId, isTextField, say, set, takesSpace } from "./dom.js";
import { Socket } from "./link.js";
import { isReplay } from "./store.js";
import { long, t } from "./words.js";

const CONFIRMED_MS = 200;
const AGAIN_MS = 5000;
const KEPT_MS = 60000;
const NOBODY = "";

/** Ask for halts and show how each stands. `look()` returns {store, up, robot}. */
export class Halt {
  constructor(look, told) {
    this.look = look;
    this.told = told;
    this.asked = new Map();
    this.socket = new Socket("/halt", { opened: () => this.again(), heard: (text) => this.heard(JSON.parse(text)) });
    this.button(byId("stop"), () => this.halt(this.robots()));
    this.button(byId("stop-one"), () => this.halt([this.look().robot]));
    window.addEventListener("keydown", (event) => this.key(event), true);
    for (const name of ["focusin", "focusout"]) document.addEventListener(name, () => setTimeout(() => this.showKey()));
    window.addEventListener("keyup", (event) => event.code === "Space" && event.ctrlKey && event.preventDefault(), true);
  }

  /** Halt where the button is pressed, not where it is let go of. */
  button(node, act) {
    node.addEventListener("pointerdown", (event) => event.button === 0 && act());
    node.addEventListener("click", (event) => event.detail === 0 && act());
  }

  key(event) {
    if (event.code !== "Space" && event.key !== " ") return;
    if (!event.ctrlKey && (event.isComposing || event.altKey || event.metaKey || takesSpace(document.activeElement))) return;
    event.preventDefault();
    if (!event.repeat) this.halt(this.robots());
  }

  /** Show which key halts now. */
  showKey() {
    say(byId("stop").lastElementChild, t(isTextField(document.activeElement) ? "halt.keys" : "halt.key"));
  }

  robots() {
    return Object.keys(this.look().store.state?.robots ?? {}).filter((name) => !isReplay(name));
  }

  halt(robots) {
    for (const name of robots.length ? robots : [NOBODY]) {
      this.asked.set(name, { at: performance.now(), message: "" });
      this.send(name);
    }
    this.show();
    setTimeout(() => this.show(), CONFIRMED_MS + 5);
  }

  send(name) {
    this.socket.send(JSON.stringify({ robot: name, cause: "page" }));
  }

  /** Ask again for what was asked while the connection was gone. */
  again() {
    for (const [name, { at }] of this.asked) if (performance.now() - at < AGAIN_MS) this.send(name);
  }

  heard({ robot, ok, message }) {
    if (this.asked.has(robot) && !ok) this.asked.get(robot).message = message;
    this.show();
  }

  /** Return how the halt of a robot stands: [kind, words]. */
  standing(name) {
    const { store, up } = this.look();
    const robot = store.state?.robots[name];
    if (isReplay(name) || (!robot && name !== NOBODY)) return ["off", ""];
    const halted = robot?.halted ?? {};
    const asked = this.asked.get(name);
    if (asked && halted.on && up && robot.link !== "lost") this.asked.delete(name);
    else if (asked && performance.now() - asked.at > KEPT_MS) this.asked.delete(name);
    else if (asked) {
      if (performance.now() - asked.at < CONFIRMED_MS) return ["asked", t("halt.asked")];
      return ["unconfirmed", `${t("halt.unconfirmed")}${asked.message ? ` (${asked.message})` : ""}`];
    }
    if (halted.on && (!up || robot.link === "lost")) return ["old", t("halt.old", long(Math.max(robot.age_s ?? 0, this.look().silent)))];
    if (halted.on) return ["on", halted.cause ? t("halt.cause", halted.cause) : t("halt.on")];
    return halted.on === false || name === NOBODY ? ["off", ""] : ["unknown", t("halt.unknown")];
  }

  show() {
    const { robot, up } = this.look();
    const robots = this.robots();
    const stands = new Map(robots.map((name) => [name, this.standing(name)]));
    if (this.asked.has(NOBODY)) stands.set(NOBODY, this.standing(NOBODY));
    const first = ["unconfirmed", "asked"].map((kind) => [...stands.keys()].find((name) => stands.get(name)[0] === kind)).find((name) => name !== undefined);
    const shown = first ?? robot;
    const [kind, words] = stands.get(shown) ?? ["off", ""];
    const state = byId("halt-state");
    say(state, words && shown !== robot && shown !== NOBODY ? `${shown}: ${words}` : words);
    set(state, "data-kind", kind);
    set(state, "title", words);
    set(document.body, "data-halt", stands.get(robot)?.[0] ?? "off");
    byId("clear").hidden = !["on", "old"].includes(stands.get(robot)?.[0]);
    byId("clear").disabled = !up;
    byId("stop-one").hidden = robots.length < 2 || !stands.has(robot);
    say(byId("stop-one"), t("halt.one", robot));
    say(byId("stop").firstElementChild, t(robots.length > 1 ? "halt.all" : "halt.stop"));
    this.showKey();
    this.told(stands);
  }
}
