// SPDX-License-Identifier: Apache-2.0
// The tasks, with their plans and what they use, and the loops that think about them.

import { byId, list, make, say, set } from "./dom.js";
import { hasEnded, isReplay, taskState } from "./store.js";
import { dollars, long, many, t } from "./words.js";

const MOST_ENDED = 20;
const LOOPS = ["s3", "s2", "s1", "s0"];

const tokens = (use) => (use.prompt_tokens ?? 0) + (use.completion_tokens ?? 0);

/** Return the loop to which a planning layer belongs. */
const loopOf = (layer) => (LOOPS.includes(layer.slice(0, 2)) ? layer.slice(0, 2) : "s1");

/** Show the four loops: who thinks and since when, queue, tokens, cost and budget. */
export function showLoops(robot, now) {
  const loops = robot.loops ?? {};
  const sums = {};
  const since = {};
  for (const task of Object.values(robot.processes)) {
    for (const use of task.usage ?? []) sums[loopOf(use.layer)] = (sums[loopOf(use.layer)] ?? 0) + tokens(use);
    for (const [layer, at] of Object.entries(task.asking ?? {})) since[loopOf(layer)] = Math.min(at, since[loopOf(layer)] ?? at);
  }
  const names = [...LOOPS.filter((name) => name in loops), ...Object.keys(loops).filter((name) => !LOOPS.includes(name))];
  const total = names.reduce((sum, name) => sum + Math.max(0, loops[name].cost_usd ?? 0), 0);
  const budgets = [...new Set(names.map((name) => loops[name].budget).filter(Boolean))];
  const notes = [total > 0 ? t("loops.sum", dollars(total)) : "", budgets.length === 1 ? t("loops.budget", budgets[0]) : ""];
  say(byId("loops-note"), names.length ? notes.filter(Boolean).join(", ") : t("loops.none"));
  list(byId("loops"), names, (name) => name, (name) => make("tr", {}, make("th", { scope: "row" }, make("abbr", { text: name.toUpperCase() }), " ", make("span", { text: t(`loops.${name}`) })), make("td"), make("td", { class: "n" }), make("td", { class: "n" }), make("td", { class: "n" }, make("span"), make("small"))), (row, name) => {
    const loop = loops[name];
    const [, state, queue, used, cost] = row.children;
    const thinks = name in since ? t("loops.thinks", long(now - since[name])) : loop.busy ? t("loops.acts") : t("loops.rests");
    say(state, thinks);
    set(row, "data-busy", loop.busy || name in since ? "true" : null);
    say(queue, loop.queue ? String(loop.queue) : "–");
    say(used, sums[name] ? many(sums[name]) : "–");
    say(cost.firstChild, dollars(loop.cost_usd));
    say(cost.lastChild, budgets.length > 1 && loop.budget ? t("loops.budget", loop.budget) : "");
  });
}

/** Show the tasks; `act(name, about)` sends an act to the robot that is shown. */
export class Tasks {
  constructor(act) {
    this.act = act;
  }

  show(name, robot, story, now) {
    const all = [...story.tasks].sort(([, a], [, b]) => (b.states?.[0]?.[1] ?? 0) - (a.states?.[0]?.[1] ?? 0));
    const running = all.filter(([, task]) => !hasEnded(task));
    const ended = all.filter(([, task]) => hasEnded(task));
    const acts = !isReplay(name);
    this.cards(byId("tasks"), running, now, acts);
    this.cards(byId("ended-list"), ended.slice(0, MOST_ENDED), now, false);
    byId("tasks-none").hidden = running.length > 0;
    byId("ended").hidden = ended.length === 0;
    say(byId("ended-title"), t("tasks.ended", ended.length));
    say(byId("tasks-note"), running.length ? t("tasks.count", running.length) : "");
  }

  cards(node, tasks, now, acts) {
    list(node, tasks, ([id]) => id, ([id]) => this.card(id, acts), (card, [, task]) => this.fill(card, task, now));
  }

  card(id, acts) {
    const said = make("p", { class: "said", role: "status" });
    const button = (act) => make("button", { type: "button", "data-act": act, text: t(`tasks.${act}`), onclick: async () => {
      const { ok, message } = await this.act(act, { process: id });
      set(said, "data-bad", ok ? null : "true");
      say(said, ok ? "" : message);
    } });
    return make("li", {}, make("p", { class: "head" }, make("span", { class: "state" }), make("span", { class: "who" }), make("time")), make("p", { class: "text" }), make("ol", { class: "plan plain" }), make("p", { class: "step" }), make("p", { class: "usage" }),
      acts ? make("div", { class: "buttons" }, button("pause"), button("resume"), button("stop")) : "", said);
  }

  fill(card, task, now) {
    const [state, since, why] = taskState(task);
    set(card, "data-state", state);
    say(card.querySelector(".state"), `${t(`state.${state}`)}${why ? `: ${why}` : ""}`);
    say(card.querySelector(".who"), t(`source.${task.source}`));
    const begun = task.states?.[0]?.[1] ?? since;
    say(card.querySelector("time"), long((hasEnded(task) ? since : now) - begun));
    say(card.querySelector(".text"), task.instruction);
    list(card.querySelector(".plan"), (task.subtasks ?? []).map(([text, status], n) => ({ text, status, n })), (item) => item.n, () => make("li"), (line, item) => {
      say(line, item.text);
      set(line, "data-status", ["pending", "active", "done", "failed"][item.status] ?? String(item.status).toLowerCase());
    });
    const asking = Object.entries(task.asking ?? {}).map(([layer, at]) => t("tasks.thinks", layer.toUpperCase(), long(now - at)));
    const queue = task.queued || task.steps_done ? t("tasks.queue", task.queued ?? 0, task.steps_done ?? 0) : "";
    say(card.querySelector(".step"), hasEnded(task) ? "" : [task.step ? t("tasks.step", task.step.replace(/^<step>|<\/step>$/g, "")) : "", queue, ...asking].filter(Boolean).join(" · "));
    const usage = (task.usage ?? []).filter((use) => use.asked).map((use) => t("tasks.usage", use.layer.toUpperCase(), use.asked, many(tokens(use)), use.cost_usd >= 0 ? `, ${dollars(use.cost_usd)}` : ""));
    say(card.querySelector(".usage"), usage.join(" · "));
    for (const button of card.querySelectorAll("[data-act]")) {
      const act = button.dataset.act;
      button.hidden = (act === "pause" && state === "PAUSED") || (act === "resume" && state !== "PAUSED");
    }
  }
}
