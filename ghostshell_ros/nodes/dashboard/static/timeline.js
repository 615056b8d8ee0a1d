// SPDX-License-Identifier: Apache-2.0
// The timeline: tasks × channels over time. What is out of view costs nothing, and what is smaller than a pixel is drawn once.

import { Surface } from "./canvas.js";
import { callWords } from "./chat.js";
import { byId, list, make, say, set } from "./dom.js";
import { ENDED, isReplay, standing } from "./store.js";
import { clock, long, t } from "./words.js";

const AXIS_PX = 22;
const TASK_PX = 22;
const LANE_PX = 19;
const GAP_PX = 6;
const SHORTEST_S = 0.2;
const LONGEST_S = 7 * 86400;
const FIRST_S = 60;
const MOST_ROWS = 200;
const MOST_TASKS = 24;
const LIVE_MS = 50;
const CALM_MS = 500;
const NEAR_PX = 4;
const OUTCOME_COLOURS = { queued: "none", running: "accent", DONE: "good", FAILED: "bad", INTERRUPTED: "warn", REFUSED: "off", DROPPED: "none", unheard: "none" };
/** Of calls on the same pixel the one that stands last here is seen. */
const SEEN = ["queued", "DROPPED", "unheard", "DONE", "running", "REFUSED", "INTERRUPTED", "FAILED"];
const STATE_COLOURS = { WAITING: "none", IN_PROGRESS: "accent", PAUSED: "warn" };
const NO_CALLS = { from: Infinity, to: -Infinity, lanes: new Map() };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

const lives = (states) => states.length > 0 && !ENDED.includes(states.at(-1)[0]);

/** Return the first index at which `key(item) >= wanted`, of items in order of their keys. */
function firstFrom(items, wanted, key) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (key(items[middle]) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Hold the calls of one channel of one task in order of their beginnings. */
class Lane {
  constructor(name) {
    this.name = name;
    this.bars = [];
    this.longest = 0;
    this.open = new Set();
  }

  put(bar) {
    const at = firstFrom(this.bars, bar.from, (other) => other.from);
    this.bars.splice(at, 0, bar);
    this.measure(bar);
  }

  measure(bar) {
    if (bar.to === null) this.open.add(bar);
    else {
      this.open.delete(bar);
      this.longest = Math.max(this.longest, bar.to - bar.from);
    }
  }

  drop(bar) {
    const at = this.bars.indexOf(bar);
    if (at >= 0) this.bars.splice(at, 1);
    this.open.delete(bar);
  }

  /** Return the bars that overlap a time, those that began long before and still run first. */
  within(from, to) {
    const begin = firstFrom(this.bars, from - this.longest, (bar) => bar.from);
    const end = firstFrom(this.bars, to, (bar) => bar.from);
    const found = [...this.open].filter((bar) => bar.from < from - this.longest);
    for (let n = begin; n < end; n++) if (this.bars[n].to === null || this.bars[n].to >= from) found.push(this.bars[n]);
    return found;
  }
}

/** Hold the lanes of the tasks of one robot, and of all its tasks together, kept up with its story. */
class Index {
  constructor() {
    this.tasks = new Map();
    this.channels = new Map();
    this.bars = new Map();
    this.from = Infinity;
    this.to = -Infinity;
  }

  follow(story) {
    for (const id of story.touched) this.take(id, story.calls.get(id));
    story.touched.clear();
  }

  take(id, call) {
    const before = this.bars.get(id) ?? [];
    const from = call ? (call.start >= 0 ? call.start : call.end) : -1;
    const to = call && (call.end >= 0 || call.outcome || call.unheard) ? Math.max(call.end, from) : null;
    if (before.length && call && before[0].from === from) {
      for (const bar of before) {
        Object.assign(bar, { call, to });
        for (const lane of bar.lanes) lane.measure(bar);
      }
    } else {
      for (const bar of before) for (const lane of bar.lanes) lane.drop(bar);
      this.bars.delete(id);
      if (!call || from < 0) return;
      const names = call.channels?.length ? call.channels : [""];
      this.bars.set(id, names.map((name) => {
        const bar = { id, call, from, to, lanes: this.lanes(call.process, name) };
        for (const lane of bar.lanes) lane.put(bar);
        return bar;
      }));
    }
    const task = this.tasks.get(call.process);
    task.from = Math.min(task.from, from);
    task.to = Math.max(task.to, to ?? from);
    this.from = Math.min(this.from, from);
    this.to = Math.max(this.to, to ?? from);
  }

  lanes(process, name) {
    if (!this.tasks.has(process)) this.tasks.set(process, { from: Infinity, to: -Infinity, lanes: new Map() });
    return [this.tasks.get(process).lanes, this.channels].map((lanes) => {
      if (!lanes.has(name)) lanes.set(name, new Lane(name));
      return lanes.get(name);
    });
  }

  /** Return each call's first bar in order of time. */
  inOrder() {
    return [...this.bars.values()].map(([bar]) => bar).sort((a, b) => a.from - b.from);
  }
}

/** Draw the timeline of the robot that is shown, and let a person move about in it. */
export class Timeline {
  constructor() {
    this.canvas = byId("timeline");
    this.surface = new Surface(this.canvas, () => this.draw());
    this.indexes = new Map();
    this.views = new Map();
    this.scroll = 0;
    this.drawn = [];
    this.chosen = null;
    this.pointers = new Map();
    this.last = 0;
    this.listen();
    setInterval(() => this.view?.follows && this.running && this.draw(), 1000 / 30);
  }

  listen() {
    byId("zoom-in").addEventListener("click", () => this.zoom(0.5));
    byId("zoom-out").addEventListener("click", () => this.zoom(2));
    byId("zoom-all").addEventListener("click", () => this.all());
    byId("follow").addEventListener("click", () => this.follow(!this.view.follows));
    byId("time-as-table").addEventListener("toggle", () => this.table());
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) this.canvas.addEventListener(name, (event) => this.up(event));
  }

  /** Show a robot's story. */
  show(name, robot, story, now, live) {
    if (!this.indexes.has(name) || this.indexes.get(name).story !== story) {
      this.indexes.set(name, Object.assign(new Index(), { story }));
      for (const id of story.calls.keys()) story.touched.add(id);
      this.views.delete(name);
    }
    this.index = this.indexes.get(name);
    this.index.follow(story);
    this.replay = isReplay(name);
    if (!this.views.has(name)) this.views.set(name, { span: FIRST_S, end: now, follows: !this.replay });
    if (this.name !== name) Object.assign(this, { chosen: null, scroll: 0, last: 0 });
    Object.assign(this, { name, robot, story, clockAt: performance.now(), clockNow: now, running: live && !this.replay });
    this.view = this.views.get(name);
    if (this.replay && !this.view.seen && this.index.bars.size) {
      this.view.seen = true;
      this.all();
    }
    set(byId("follow"), "aria-pressed", String(this.view.follows));
    byId("follow").hidden = this.replay;
    const calls = story.calls.size;
    say(byId("time-note"), calls ? t("time.calls", calls) : "");
    if (!this.chosen) say(byId("time-detail"), calls ? t("time.hint") : t("time.none"));
    else this.tell();
    if (byId("time-as-table").open && performance.now() - (this.tabled ?? 0) > 1000) this.table();
    this.draw();
  }

  get now() {
    return this.clockNow + (this.running ? (performance.now() - this.clockAt) / 1000 : 0);
  }

  get window() {
    if (this.view.follows) this.view.end = this.now + this.view.span * 0.04;
    return [this.view.end - this.view.span, this.view.end];
  }

  /** Return where a time is drawn, for as long as the window stays. */
  get scale() {
    const { gutter, window: [from, to] } = this;
    const factor = (this.surface.width - gutter) / (to - from);
    return (at) => gutter + (at - from) * factor;
  }

  get gutter() {
    return this.surface.width < 560 ? 74 : 140;
  }

  at(x) {
    const [from, to] = this.window;
    return from + ((x - this.gutter) / (this.surface.width - this.gutter)) * (to - from);
  }

  follow(on) {
    this.view.follows = on && !this.replay;
    set(byId("follow"), "aria-pressed", String(this.view.follows));
    this.last = 0;
    this.draw();
  }

  zoom(factor, around = null) {
    if (!this.view) return;
    const [from, to] = this.window;
    const fixed = around ?? (this.view.follows ? to : (from + to) / 2);
    const span = Math.min(LONGEST_S, Math.max(SHORTEST_S, this.view.span * factor));
    this.view.end = fixed + (to - fixed) * (span / this.view.span);
    this.view.span = span;
    this.last = 0;
    this.draw();
  }

  pan(seconds) {
    const [, end] = this.window;
    Object.assign(this.view, { follows: false, end: end + seconds });
    this.follow(false);
  }

  all() {
    if (!this.view || !this.index.bars.size) return;
    const to = this.replay ? Math.max(this.index.to, this.index.from) : this.now;
    this.view.span = Math.max(2, (to - this.index.from) * 1.04);
    this.view.end = to + this.view.span * 0.02;
    if (this.replay) this.view.follows = false;
    this.last = 0;
    this.draw();
  }

  key(event) {
    if (!this.view || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = this.view.span * (event.shiftKey ? 0.5 : 0.1);
    const does = {
      ArrowLeft: () => this.pan(-step),
      ArrowRight: () => this.pan(step),
      ArrowUp: () => this.scrollBy(-LANE_PX * 2),
      ArrowDown: () => this.scrollBy(LANE_PX * 2),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      Home: () => this.all(),
      End: () => this.follow(true),
      ",": () => this.choose(-1),
      ".": () => this.choose(1),
      Escape: () => this.leave(),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }

  leave() {
    this.chosen = null;
    say(byId("time-detail"), t("time.hint"));
    this.draw();
  }

  /** Go to the next call in time, or to the one before. */
  choose(step) {
    const bars = this.index.inOrder();
    if (!bars.length) return;
    const now = this.chosen ? bars.findIndex((bar) => bar.id === this.chosen) : step > 0 ? firstFrom(bars, this.window[0], (bar) => bar.from) - 1 : bars.length;
    const bar = bars[Math.min(bars.length - 1, Math.max(0, now + step))];
    this.chosen = bar.id;
    const [from, to] = this.window;
    if (bar.from < from || bar.from > to) {
      this.follow(false);
      this.view.end = bar.from + this.view.span * 0.6;
    }
    this.tell();
    this.last = 0;
    this.draw();
    const row = this.rows.find((row) => bar.lanes.includes(row.lane));
    if (row && (row.y < AXIS_PX || row.y + LANE_PX > this.surface.height)) this.scrollBy(row.y - this.surface.height / 2);
  }

  tell() {
    const call = this.story.calls.get(this.chosen);
    if (!call) return;
    const [, outcome] = callWords(call);
    const took = call.start >= 0 && call.end >= 0 ? long(call.end - call.start) : "";
    const task = this.story.tasks.get(call.process)?.instruction ?? "";
    const parts = [call.label || call.function, outcome, took, (call.channels ?? []).join(", "), clock(call.start >= 0 ? call.start : call.end, true), call.error || call.text, task && `“${task}”`];
    say(byId("time-detail"), parts.filter(Boolean).join(" · "));
  }

  table() {
    if (!this.view || !byId("time-as-table").open) return;
    this.tabled = performance.now();
    const [from, to] = this.window;
    const bars = this.index.inOrder();
    const shown = bars.slice(firstFrom(bars, from, (bar) => bar.from), firstFrom(bars, to, (bar) => bar.from)).slice(-MOST_ROWS);
    list(byId("time-rows"), shown, (bar) => bar.id, () => make("tr", {}, ...Array.from({ length: 6 }, () => make("td"))), (row, { call }) => {
      const task = this.story.tasks.get(call.process)?.instruction ?? "";
      const took = call.start >= 0 && call.end >= 0 ? long(call.end - call.start) : "–";
      const cells = [clock(call.start >= 0 ? call.start : call.end, true), call.label || call.function, (call.channels ?? []).join(", "), `${callWords(call)[1]}${call.error ? `: ${call.error}` : ""}`, took, task];
      cells.forEach((words, n) => say(row.children[n], words));
    });
  }

  wheel(event) {
    if (!this.view) return;
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.at(event.offsetX));
    else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)) this.pan((sideways / (this.surface.width - this.gutter)) * this.view.span);
    else if (!this.scrollBy(event.deltaY)) return;
    event.preventDefault();
  }

  /** Scroll up and down. Return whether there was anywhere to go. */
  scrollBy(pixels) {
    const most = Math.max(0, (this.tall ?? 0) - this.surface.height);
    const before = this.scroll;
    this.scroll = Math.min(most, Math.max(0, this.scroll + pixels));
    this.last = 0;
    this.draw();
    return this.scroll !== before;
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, moved: 0 });
  }

  move(event) {
    const pointer = this.pointers.get(event.pointerId);
    if (!pointer) {
      if (event.pointerType === "mouse") this.point(event.offsetX, event.offsetY);
      return;
    }
    const by = event.offsetX - pointer.x;
    pointer.moved += Math.abs(by);
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
      const before = Math.max(10, Math.abs(pointer.x - other.x));
      this.zoom(before / Math.max(10, Math.abs(event.offsetX - other.x)), this.at(other.x));
    } else if (pointer.moved > NEAR_PX && this.view) this.pan((-by / (this.surface.width - this.gutter)) * this.view.span);
    pointer.x = event.offsetX;
  }

  up(event) {
    const pointer = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (event.type === "pointerup" && pointer && pointer.moved <= NEAR_PX) this.point(event.offsetX, event.offsetY);
  }

  point(x, y) {
    const found = this.drawn.findLast((box) => x >= box.x - NEAR_PX / 2 && x <= box.x + box.w + NEAR_PX / 2 && y >= box.y && y <= box.y + box.h);
    if (!found || found.bar.id === this.chosen) return;
    this.chosen = found.bar.id;
    this.tell();
    this.last = 0;
    this.draw();
  }

  /** Return the rows of all tasks of which something is in view, the newest task first; of many tasks, the channels of all together. */
  layOut() {
    const [from, to] = this.window;
    const rows = [];
    const inView = [];
    const see = (id, task, states) => {
      const begun = Math.min(task.from, states[0]?.[1] ?? Infinity);
      if (begun > to || (Math.max(task.to, states.at(-1)?.[1] ?? -Infinity) < from && !lives(states) && ![...task.lanes.values()].some((lane) => lane.open.size))) return;
      inView.push({ id, task, states, begun });
    };
    for (const [id, task] of this.index.tasks) see(id, task, this.story.tasks.get(id)?.states ?? []);
    for (const [id, { states = [] }] of this.story.tasks) if (states.length && !this.index.tasks.has(id)) see(id, NO_CALLS, states);
    inView.sort((a, b) => b.begun - a.begun);
    let y = AXIS_PX + 2;
    if (inView.length > MOST_TASKS) {
      rows.push({ y, title: t("time.tasks", inView.length), states: [] });
      inView.splice(0, Infinity, { task: { lanes: this.index.channels } });
    }
    for (const { id, task, states } of inView) {
      if (id) rows.push({ y, title: this.story.tasks.get(id)?.instruction || id, states, asking: this.story.tasks.get(id)?.asking });
      y += TASK_PX;
      for (const lane of task.lanes.values()) {
        rows.push({ y, lane });
        y += LANE_PX;
      }
      y += GAP_PX;
    }
    this.tall = y;
    this.scroll = Math.min(this.scroll, Math.max(0, y - this.surface.height));
    for (const row of rows) row.y -= this.scroll;
    return rows;
  }

  draw() {
    const { surface } = this;
    const wait = Math.max(calm.matches ? CALM_MS : LIVE_MS, (1000 * this.view?.span) / surface.width);
    if (!this.view || !surface.visible || performance.now() - this.last < (this.view.follows ? wait : 12)) return;
    this.last = performance.now();
    surface.clear();
    this.drawn = [];
    this.rows = this.layOut();
    this.x = this.scale;
    const { context } = surface;
    context.save();
    context.beginPath();
    context.rect(0, AXIS_PX, surface.width, surface.height - AXIS_PX);
    context.clip();
    this.grid(false);
    for (const row of this.rows) {
      if (row.y + TASK_PX < AXIS_PX || row.y > surface.height) continue;
      if (row.lane) this.lane(row);
      else this.task(row);
    }
    if (this.running) {
      const x = this.x(this.now);
      context.fillStyle = surface.colours.accent;
      context.fillRect(x, AXIS_PX, 1, surface.height);
    }
    context.restore();
    this.grid(true);
    if (!this.rows.length && this.story.calls.size) surface.text(t("time.nothing"), this.gutter + 12, AXIS_PX + 24, { colour: "dim", size: 13 });
    this.bar();
  }

  /** Draw the marks of time: the lines, or their labels. */
  grid(labels) {
    const { surface } = this;
    const [from, to] = this.window;
    const least = ((to - from) * 84) / Math.max(1, surface.width - this.gutter);
    const step = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400].find((length) => length >= least) ?? 86400;
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const x = Math.round(this.x(at));
      if (x < this.gutter) continue;
      if (labels && x > this.gutter + 28 && x < surface.width - 28) surface.text(clock(at + 1e-4, step < 1), x, AXIS_PX / 2, { colour: "dim", size: 11, align: "center" });
      if (!labels) {
        surface.context.fillStyle = surface.colours.faint;
        surface.context.fillRect(x, AXIS_PX, 1, surface.height);
      }
    }
  }

  task({ y, title, states, asking }) {
    const { surface } = this;
    const { context, colours, width } = surface;
    context.fillStyle = colours.faint;
    context.fillRect(0, y, width, TASK_PX - 6);
    states.forEach(([state, at], n) => {
      if (!(state in STATE_COLOURS)) return;
      const x = Math.max(this.gutter, this.x(at));
      const end = Math.min(width, this.x(states[n + 1]?.[1] ?? this.now));
      context.fillStyle = colours[STATE_COLOURS[state]];
      if (end > x) context.fillRect(x, y + TASK_PX - 6, Math.max(1, end - x), 3);
    });
    for (const [layer, since] of Object.entries(asking ?? {})) {
      const from = Math.max(this.gutter, this.x(since));
      const to = Math.min(width, this.x(this.now));
      if (to <= from) continue;
      context.fillStyle = colours.line;
      context.fillRect(from, y, to - from, TASK_PX - 6);
      surface.text(layer.toUpperCase(), to - 4, y + (TASK_PX - 6) / 2, { size: 10, align: "right", colour: "dim" });
    }
    surface.text(title, 6, y + (TASK_PX - 6) / 2, { size: 12, weight: "600", most: width - 60 });
  }

  lane({ y, lane }) {
    const { surface, gutter } = this;
    const { context, colours, width } = surface;
    const [from, to] = this.window;
    const bars = lane.within(from, to);
    const { x: at, now } = this;
    surface.text(lane.name || t("time.lane"), 14, y + LANE_PX / 2, { size: 11, colour: "dim", most: gutter - 18 });
    context.fillStyle = colours.faint;
    context.fillRect(gutter, y + LANE_PX - 1, width - gutter, 1);
    let [filled, rank, reach] = [-Infinity, 0, -Infinity];
    for (const bar of bars) {
      const x0 = Math.max(gutter, at(bar.from));
      const x1 = Math.min(width, at(bar.to ?? now));
      const stands = standing(bar.call);
      const itsRank = SEEN.indexOf(stands);
      if (x1 < gutter || (x1 <= filled && itsRank <= rank && bar.id !== this.chosen)) continue;
      const inset = bar.from < reach ? 3 : 0;
      reach = Math.max(reach, bar.to ?? Infinity);
      const [w, h] = [Math.max(x1 - x0 - 0.5, 1.5), LANE_PX - 4 - 2 * inset];
      context.fillStyle = colours[OUTCOME_COLOURS[stands]];
      context.fillRect(x0, y + 1 + inset, w, h);
      if (stands === "running") {
        context.fillStyle = colours.ink;
        context.fillRect(x1 - 2, y + 1 + inset, 2, h);
      }
      if (bar.id === this.chosen) {
        context.strokeStyle = colours.ink;
        context.lineWidth = 2;
        context.strokeRect(x0 - 1, y + inset, w + 2, h + 2);
      }
      if (w > 22 && !inset) surface.text(`${callWords(bar.call)[0]} ${bar.call.label || bar.call.function}`, x0 + 4, y + 1 + h / 2 + 0.5, { size: 11, colour: "on-fill", most: w - 8 });
      this.drawn.push({ x: x0, y, w, h: LANE_PX, bar });
      [filled, rank] = [Math.ceil(x0 + w), itsRank];
    }
  }

  /** Show how far it is scrolled. */
  bar() {
    const { surface } = this;
    const room = surface.height - AXIS_PX;
    if (this.tall <= surface.height) return;
    const size = Math.max(20, (room * surface.height) / this.tall);
    surface.context.fillStyle = surface.colours.line;
    surface.context.fillRect(surface.width - 4, AXIS_PX + ((room - size) * this.scroll) / (this.tall - surface.height), 3, size);
  }
}
