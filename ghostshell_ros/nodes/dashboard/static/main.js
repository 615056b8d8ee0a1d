// SPDX-License-Identifier: Apache-2.0
// The page: which robot is shown, how the connection is, language and theme, keys.

import { Cameras } from "./cameras.js";
import { Chat } from "./chat.js";
import { byId, forgetLists, isTextField, list, make, say, set } from "./dom.js";
import { showFacts, showHealth } from "./facts.js";
import { Halt } from "./halt.js";
import { Link } from "./link.js";
import { Map2D } from "./map.js";
import { askMemory } from "./memory.js";
import { Rules } from "./rules.js";
import { isReplay, Store } from "./store.js";
import { showLoops, Tasks } from "./tasks.js";
import { Timeline } from "./timeline.js";
import { language, long, showWords, switchLanguage, t } from "./words.js";

const NEWS_MS = 6000;
const LOST_MS = 1000;
const KEYS = [["Space", "space"], ["Ctrl Space", "ctrl"], ["/", "slash"], ["Esc", "escape"], ["1 … 9", "digits"], ["F6", "panels"], ["t", "t"], ["← → ↑ ↓", "arrows"], ["+ −", "zoom"], [", .", "calls"], ["Home End", "ends"]];

const store = new Store();
const began = performance.now();
let robot = "";
let wanted = "";
let due = false;

const link = new Link({
  heard: (message) => {
    const fits = store.take(message);
    halt.show();
    redraw();
    return fits;
  },
  changed: () => redraw(),
});
const halt = new Halt(() => ({ store, robot, up: link.up, silent: link.silent }), showStopped);
const act = (name, about) => link.act(name, robot, about);
const chat = new Chat(act);
const tasks = new Tasks(act);
const rules = new Rules(act);
const cameras = new Cameras();
const timeline = new Timeline();
const map = new Map2D();

function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    show();
  });
}

/** Tell the outcome of an act that has no place of its own. */
async function tell(answer) {
  const { ok, message } = await answer;
  const news = byId("news");
  say(news, message);
  set(news, "data-bad", ok ? null : "true");
  news.hidden = !message;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => (news.hidden = true), NEWS_MS);
}

function pick(names) {
  const found = wanted && names.find((name) => name === wanted || name.startsWith(`${wanted} · `));
  if (found) [robot, wanted] = [found, ""];
  if (!names.includes(robot)) robot = names.find((name) => !isReplay(name)) ?? names[0] ?? "";
}

function go(name) {
  robot = name;
  show();
}

function show() {
  showConnection();
  const { state } = store;
  const names = Object.keys(state?.robots ?? {});
  pick(names);
  showTabs(names);
  halt.show();
  byId("robot").hidden = !robot;
  byId("nobody").hidden = Boolean(robot) || !state;
  say(byId("nobody"), t("nobody"));
  if (state) say(byId("you"), state.you?.name ? t("you", state.you.name) : "");
  if (!robot) return;
  const it = state.robots[robot];
  const story = store.story(robot);
  const now = store.now(link.up);
  showRecordings(state);
  chat.show(robot, it, story, now, state.you);
  tasks.show(robot, it, story, now);
  showLoops(it, now);
  rules.show(robot, it);
  showFacts(it);
  showHealth(it);
  cameras.show(robot, it);
  map.show(it, now);
  timeline.show(robot, it, story, now, link.up && it.link !== "lost");
}

/** Return how a robot is heard: [kind, words]. */
function heardOf(name) {
  const it = store.state.robots[name];
  if (isReplay(name)) return ["replay", t("link.replay")];
  if (!link.up) return ["lost", t("link.none")];
  const age = long(it.age_s ?? 0);
  return [it.link ?? "live", it.link === "stale" ? t("link.stale", age) : it.link === "lost" ? t("link.lost", age) : t("link.live")];
}

function showTabs(names) {
  list(byId("robots"), names, (name) => name, (name) => make("button", { type: "button", role: "tab", id: `tab ${name}`, "aria-controls": "robot", onclick: () => go(name) }, make("i", { "aria-hidden": "true" }), make("span", { text: name })), (tab, name) => {
    const [kind] = heardOf(name);
    set(tab, "data-link", kind);
    set(tab, "aria-selected", String(name === robot));
    set(tab, "tabindex", name === robot ? "0" : "-1");
  });
  if (!robot) {
    say(byId("link"), link.up ? "" : t("link.none"));
    set(byId("link"), "data-link", "lost");
    return;
  }
  set(byId("robot"), "aria-label", robot);
  document.title = `${robot} · GhostShell`;
  const [kind, words] = heardOf(robot);
  say(byId("link"), words);
  set(byId("link"), "data-link", kind);
  set(document.body, "data-link", kind);
}

function showStopped(stands) {
  for (const tab of byId("robots").children) set(tab, "data-halt", stands.get(tab.lastChild.textContent)?.[0] ?? "off");
}

function showConnection() {
  const banner = byId("lost");
  const gone = link.everOpen ? !link.up && link.silent * 1000 > LOST_MS : !link.up && performance.now() - began > LOST_MS;
  banner.hidden = !gone;
  if (!gone) return;
  if (link.refused) say(banner, t("lost.refused"));
  else say(banner, link.everOpen ? t("lost", long(Math.round(link.silent))) : t("lost.first"));
}

function showRecordings({ recordings = [], replaying = "" }) {
  const select = byId("recording");
  select.closest("label").hidden = !recordings.length && !replaying;
  const names = replaying && !recordings.includes(replaying) ? [replaying, ...recordings] : recordings;
  list(select, ["", ...names], (name) => name, (name) => make("option", { value: name, text: name || t("time.live") }), () => {});
  if (document.activeElement !== select && !showRecordings.busy) select.value = replaying;
}

byId("recording").addEventListener("change", async (event) => {
  const name = event.target.value;
  showRecordings.busy = true;
  say(byId("time-detail"), name ? t("time.loading", name) : "");
  if (name) wanted = `▶ ${name}`;
  const answer = name ? act("replay", { name }) : act("live");
  tell(answer);
  await answer;
  showRecordings.busy = false;
  if (!name && isReplay(robot)) robot = "";
  redraw();
});

byId("clear").addEventListener("click", () => tell(act("clear", { number: store.state.robots[robot]?.halted?.number ?? 0 })));

byId("robots").addEventListener("keydown", (event) => {
  const tabs = [...byId("robots").children];
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
  next.click();
  next.focus();
});

// A button that was clicked gives the focus back, so that the space bar halts and does not press it again.
document.addEventListener("click", (event) => {
  const button = event.detail > 0 && event.target instanceof Element ? event.target.closest("button, summary, select") : null;
  if (button && button === document.activeElement && !(button instanceof HTMLSelectElement)) button.blur();
});

/** Go to the next visible part of the page, or to the one before. */
function nextPanel(step) {
  const panels = [...document.querySelectorAll(".panel")].filter((panel) => panel.checkVisibility());
  const at = panels.findIndex((panel) => panel.contains(document.activeElement));
  const panel = panels[(at + step + panels.length) % panels.length];
  set(panel, "tabindex", "-1");
  panel.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "F6") {
    event.preventDefault();
    nextPanel(event.shiftKey ? -1 : 1);
  } else if (isTextField(document.activeElement)) {
    if (event.key === "Escape") document.activeElement.blur();
  } else if (event.key === "/") {
    event.preventDefault();
    view("talk");
    byId("instruction").focus();
  } else if (event.key === "t") {
    view("time");
    byId("timeline").focus();
  } else if (event.key === "?") byId("help").showModal();
  else if (/^[1-9]$/.test(event.key)) {
    const name = Object.keys(store.state?.robots ?? {})[event.key - 1];
    if (name) go(name);
  }
});

/** Show one part of the page, where there is room for one only. */
function view(name) {
  set(document.body, "data-view", name);
  for (const button of byId("views").children) set(button, "aria-current", button.dataset.view === name ? "true" : null);
  redraw();
}
for (const button of byId("views").children) button.addEventListener("click", () => view(button.dataset.view));

const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");

function showTheme() {
  const other = theme() === "dark" ? "light" : "dark";
  say(byId("theme"), t(`theme.${other}`));
  set(byId("theme"), "aria-label", t("theme.label", t(`theme.${other}`)));
  for (const { surface } of [timeline, map]) surface.readColours();
  timeline.last = 0;
  timeline.draw();
  map.draw();
}

function showLanguage() {
  showWords();
  say(byId("language"), t("language.name"));
  set(byId("language"), "aria-label", t("language.label"));
  set(byId("language"), "lang", language === "en" ? "zh-CN" : "en");
  forgetLists();
  byId("help-keys").replaceChildren(...KEYS.map(([key, words]) => make("tr", {}, make("th", { scope: "row" }, make("kbd", { text: key })), make("td", { text: t(`help.${words}`) }))));
  showTheme();
  show();
}

byId("theme").addEventListener("click", () => {
  const other = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = other;
  localStorage.setItem("theme", other);
  showTheme();
});
dark.addEventListener("change", showTheme);
byId("language").addEventListener("click", () => {
  switchLanguage();
  showLanguage();
});
byId("help-button").addEventListener("click", () => byId("help").showModal());

if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");
askMemory(act);
view("talk");
showLanguage();
setInterval(redraw, 500);
