// SPDX-License-Identifier: Apache-2.0
// The map: rooms, things, the way it went, and where it is.

import { Surface } from "./canvas.js";
import { byId, list, make, say } from "./dom.js";
import { long, t } from "./words.js";

const MARGIN_PX = 14;
const FADED_S = 600;

/** Return a length with one decimal, and none below zero that shows as zero. */
const metres = (length) => (Math.round(10 * length) / 10 + 0).toFixed(1);

function corners({ polygon, box }) {
  if (polygon) return polygon;
  if (!box) return [];
  const [x0, y0, x1, y1] = Array.isArray(box) ? box.flat() : [box.x[0], box.y[0], box.x[1], box.y[1]];
  return [[x0, y0], [x1, y0], [x1, y1], [x0, y1]];
}

function inside([x, y], shape) {
  let within = false;
  for (let i = 0, j = shape.length - 1; i < shape.length; j = i++) {
    const [[xi, yi], [xj, yj]] = [shape[i], shape[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) within = !within;
  }
  return within;
}

/** Draw the map of a robot. */
export class Map2D {
  constructor() {
    this.surface = new Surface(byId("map"), () => this.draw());
    this.data = null;
  }

  show(robot, now) {
    const map = robot.map ?? {};
    this.data = { pose: map.pose ?? null, rooms: map.rooms ?? [], objects: map.objects ?? [], trail: map.trail ?? [], now, live: robot.link !== "lost" };
    const key = JSON.stringify([map, this.data.live]);
    if (key !== this.key) this.draw();
    this.key = key;
    this.tell();
  }

  tell() {
    const { pose, rooms, objects, now } = this.data;
    const empty = !pose && !rooms.length && !objects.length;
    const room = pose && rooms.find((room) => inside(pose, corners(room)));
    const at = pose ? t("map.at", metres(pose[0]), metres(pose[1]), Math.round((pose[2] * 180) / Math.PI)) : t("map.nowhere");
    say(byId("map-note"), empty ? t("map.none") : room ? t("map.in", room.name, at) : at);
    byId("map").hidden = empty;
    byId("map-list").hidden = !rooms.length && !objects.length;
    const things = [...objects.map((thing, n) => [`o${n}`, t("map.thing", thing.name, metres(thing.x), metres(thing.y), long(now - thing.seen_s))]), ...rooms.map((room) => [`r${room.name}`, t("map.room", room.name)])];
    list(byId("map-things"), things, ([id]) => id, () => make("li"), (line, [, words]) => say(line, words));
  }

  draw() {
    const { surface } = this;
    if (!this.data || !surface.visible) return;
    const { pose, rooms, objects, trail, now, live } = this.data;
    const { context, colours } = surface;
    surface.clear();
    const points = [...rooms.flatMap(corners), ...objects.map(({ x, y }) => [x, y]), ...trail, ...(pose ? [pose] : [])];
    if (!points.length) return;
    const xs = points.map(([x]) => x);
    const ys = points.map(([, y]) => y);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (x1 - x0 < 4) [x0, x1] = [(x0 + x1) / 2 - 2, (x0 + x1) / 2 + 2];
    if (y1 - y0 < 3) [y0, y1] = [(y0 + y1) / 2 - 1.5, (y0 + y1) / 2 + 1.5];
    const scale = Math.min((surface.width - 2 * MARGIN_PX) / (x1 - x0), (surface.height - 2 * MARGIN_PX - 12) / (y1 - y0));
    const left = (surface.width - scale * (x1 - x0)) / 2;
    const top = (surface.height - 12 - scale * (y1 - y0)) / 2;
    const at = ([x, y]) => [left + (x - x0) * scale, top + (y1 - y) * scale];
    const place = pose && at(pose);
    this.taken = [...objects.map(({ x, y }) => at([x, y])), ...(place ? [place] : [])].map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);

    for (const room of rooms) {
      const shape = corners(room);
      if (!shape.length) continue;
      context.beginPath();
      shape.forEach((corner, n) => context[n ? "lineTo" : "moveTo"](...at(corner)));
      context.closePath();
      context.fillStyle = colours.ground;
      context.fill();
      context.lineWidth = 1;
      context.strokeStyle = colours.dim;
      context.stroke();
    }
    if (trail.length > 1) {
      context.beginPath();
      trail.forEach((point, n) => context[n ? "lineTo" : "moveTo"](...at(point)));
      context.lineWidth = 2;
      context.lineJoin = "round";
      context.strokeStyle = colours.accent;
      context.globalAlpha = 0.45;
      context.stroke();
      context.globalAlpha = 1;
    }
    for (const thing of objects) {
      const [x, y] = at([thing.x, thing.y]);
      const old = now - thing.seen_s > FADED_S;
      context.beginPath();
      context.arc(x, y, 3.5, 0, 7);
      context.lineWidth = 1.5;
      context.strokeStyle = context.fillStyle = old ? colours.dim : colours.warn;
      if (old) context.stroke();
      else context.fill();
      this.label(thing.name, [[x + 7, y, "left"], [x - 7, y, "right"], [x, y - 11, "center"], [x, y + 11, "center"]], old ? "dim" : "ink");
    }
    for (const room of rooms) {
      const shape = corners(room);
      if (!shape.length) continue;
      const middle = shape.reduce((sum, [x]) => sum + x, 0) / shape.length;
      const [x, high] = at([middle, Math.max(...shape.map(([, y]) => y))]);
      const [, low] = at([middle, Math.min(...shape.map(([, y]) => y))]);
      this.label(room.name, [[x, high + 9, "center"], [x, low - 8, "center"], [x, (high + low) / 2, "center"]], "dim");
    }
    if (pose) this.arrow(place, pose[2], live);
    this.bar(scale);
  }

  /** Write a name at the first place where it covers no other one; nowhere where all are taken. */
  label(name, places, colour) {
    const { surface } = this;
    surface.context.font = `11px ${surface.font}`;
    const wide = surface.context.measureText(name).width;
    for (const [x, y, align] of places) {
      const left = align === "left" ? x : align === "right" ? x - wide : x - wide / 2;
      const box = [left - 2, y - 7, left + wide + 2, y + 7];
      if (box[0] < 0 || box[2] > surface.width) continue;
      if (this.taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      this.taken.push(box);
      surface.text(name, x, y, { size: 11, colour, align });
      return;
    }
  }

  arrow([x, y], yaw, live) {
    const { context, colours } = this.surface;
    context.save();
    context.translate(x, y);
    context.rotate(-yaw);
    context.beginPath();
    context.moveTo(10, 0);
    context.lineTo(-7, 6.5);
    context.lineTo(-4, 0);
    context.lineTo(-7, -6.5);
    context.closePath();
    context.lineWidth = 2;
    context.strokeStyle = live ? colours.panel : colours.dim;
    context.fillStyle = live ? colours.accent : colours.panel;
    context.fill();
    context.stroke();
    context.restore();
  }

  bar(scale) {
    const { surface } = this;
    const metres = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].find((length) => length * scale >= 36) ?? 100;
    const [x, y] = [MARGIN_PX, surface.height - 6];
    surface.context.fillStyle = surface.colours.dim;
    surface.context.fillRect(x, y, metres * scale, 1.5);
    surface.text(`${metres} m`, x + metres * scale + 5, y, { size: 10, colour: "dim" });
  }
}
