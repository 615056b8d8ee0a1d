// SPDX-License-Identifier: Apache-2.0
// What was said, what the model writes and the calls that come of it; questions of the robot; the box for instructions.

import { byId, list, make, say, set } from "./dom.js";
import { hasEnded, isReplay, standing, taskState } from "./store.js";
import { clock, long, t } from "./words.js";

const MOST_LINES = 200;
const MOST_CHIPS = 8;
const TALLEST_PX = 140;
/** Calls that only order others; the timeline shows them. */
const ORDERING = new Set(["step", "if", "else", "wait", "subtask_complete", "replace_steps", "plan_done", "observe"]);
const SIGNS = { queued: "·", running: "▸", DONE: "✓", FAILED: "✕", INTERRUPTED: "‖", REFUSED: "⊘", DROPPED: "–", unheard: "?" };

/** Return a call's sign for eyes and its standing in words. */
export const callWords = (call) => [SIGNS[standing(call)] ?? "?", t(`outcome.${standing(call)}`)];

/** Split what a model writes into words and function tokens. */
export function pieces(text) {
  return text.split(/(<[^<>]*>?)/).filter((piece) => piece !== "");
}

function written(node, text) {
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...pieces(text).map((piece) => (piece.startsWith("<") ? make("code", { text: piece }) : document.createTextNode(piece))));
}

/** Show the talk of a robot, and send what a person types. `act(name, about)` sends an act to the robot that is shown. */
export class Chat {
  constructor(act) {
    this.act = act;
    this.box = byId("instruction");
    this.atEnd = true;
    const log = byId("chat");
    log.addEventListener("scroll", () => (this.atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40));
    new ResizeObserver(() => this.atEnd && (log.scrollTop = log.scrollHeight)).observe(log);
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send();
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.send();
    });
    this.box.addEventListener("input", () => this.grow());
  }

  grow() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, TALLEST_PX)}px`;
  }

  async send() {
    const text = this.box.value.trim();
    if (!text || this.sending) return;
    this.sending = true;
    say(byId("composer-note"), t("talk.sending"));
    const { ok, message } = await this.act("instruct", { text, detach: true });
    this.sending = false;
    set(byId("composer-note"), "data-bad", ok ? null : "true");
    say(byId("composer-note"), ok ? "" : message);
    if (ok && this.box.value.trim() === text) this.box.value = "";
    this.grow();
  }

  show(name, robot, story, now, you) {
    const log = byId("chat");
    const entries = this.entries(robot, story);
    list(log, entries.length ? entries : [{ key: "none" }], (entry) => entry.key, (entry) => (entry.key === "none" ? make("p", { class: "none" }) : this.line(entry)), (node, entry) => {
      if (entry.key === "none") say(node, t("talk.none"));
      else this.fill(node, entry, robot, story);
    });
    this.questions(robot, now);
    if (this.atEnd || this.shown !== name) log.scrollTop = log.scrollHeight;
    this.shown = name;
    const may = !you?.acts || you.acts.includes("INSTRUCT");
    const replay = isReplay(name);
    this.box.disabled = replay || !may;
    byId("composer").querySelector("button").disabled = replay || !may;
    say(byId("talk-note"), replay ? t("talk.recording") : may ? "" : t("talk.mayNot", you.name ?? ""));
  }

  /** Return the newest lines and tasks that nobody typed, the oldest first. */
  entries(robot, story) {
    const lines = [...story.chat.values()];
    const begins = (line) => line.from === "person" || (line.from === "notice" && line.text === story.tasks.get(line.process)?.instruction);
    const entries = lines.map((line) => ({ key: `${line.at}|${line.from}|${line.text}`, at: line.at, from: line.from, text: line.text, task: begins(line) ? line.process : "" }));
    const asked = new Set(entries.map((entry) => entry.task));
    for (const [id, task] of story.tasks) {
      if (asked.has(id) || (!robot.streams?.[id] && !story.ofTask.get(id)?.size)) continue;
      entries.push({ key: `task ${id}`, at: task.states?.[0]?.[1] ?? 0, from: "task", text: task.instruction, source: task.source, task: id });
    }
    return entries.sort((a, b) => a.at - b.at).slice(-MOST_LINES);
  }

  line(entry) {
    const node = make("div", { class: `line ${entry.from}` });
    node.append(make("p", { class: "head" }, make("span", { class: "who" }), make("time")), make("p", { class: "text" }));
    if (entry.task) {
      node.append(make("details", { class: "wrote", hidden: true }, make("summary", { text: t("talk.wrote") }), make("p", { class: "stream" })), make("ul", { class: "chips plain", "aria-live": "off" }));
      node.querySelector(".wrote").setAttribute("aria-live", "off");
    }
    return node;
  }

  fill(node, entry, robot, story) {
    const who = entry.from === "task" ? t(`source.${entry.source}`) : t(`talk.${entry.from}`);
    say(node.querySelector(".who"), who);
    say(node.querySelector("time"), clock(entry.at));
    say(node.querySelector(".text"), entry.text);
    if (!entry.task) return;
    const task = story.tasks.get(entry.task);
    const stream = robot.streams?.[entry.task] ?? "";
    const wrote = node.querySelector(".wrote");
    if (stream) written(wrote.querySelector(".stream"), stream);
    wrote.hidden = !wrote.querySelector(".stream").dataset.text;
    const ended = !task || hasEnded(task);
    if (wrote.dataset.ended !== String(ended)) wrote.open = !ended;
    wrote.dataset.ended = String(ended);
    set(node, "data-state", task ? taskState(task)[0] : null);
    const changes = String(story.changes.get(entry.task) ?? 0);
    if (node.dataset.changes !== changes) this.chips(node.querySelector(".chips"), story.callsOf(entry.task).filter(([, call]) => !ORDERING.has(call.function)));
    node.dataset.changes = changes;
  }

  chips(node, calls) {
    const newest = calls.slice(-MOST_CHIPS);
    const items = calls.length > newest.length ? [["more", null], ...newest] : newest;
    list(node, items, ([id]) => id, () => make("li"), (chip, [, call]) => {
      if (!call) {
        say(chip, t("talk.more", calls.length - newest.length));
        return;
      }
      const [sign, words] = callWords(call);
      if (chip.dataset.is === sign) return;
      chip.dataset.is = sign;
      set(chip, "data-outcome", standing(call));
      chip.replaceChildren(make("span", { text: sign, "aria-hidden": "true" }), ` ${call.label || call.function} `, make("span", { class: "unseen", text: words }));
      set(chip, "title", call.error || call.text || words);
    });
  }

  questions(robot, now) {
    const open = Object.entries(robot.questions ?? {});
    list(byId("questions"), open, ([id]) => id, ([id, question]) => this.question(id, question), (node, [, question]) => {
      say(node.querySelector(".left"), question.until > 0 ? t("talk.until", long(question.until - now)) : "");
    });
  }

  question(id, { text, choices = [], any_words = false, person = "", why = "" }) {
    const said = make("p", { class: "said", role: "status" });
    const answer = async (words) => {
      const { ok, message } = await this.act("answer", { question: id, text: `${secret.checked ? "private: " : ""}${words}` });
      set(said, "data-bad", ok ? null : "true");
      say(said, message);
    };
    const secret = make("input", { type: "checkbox" });
    const field = make("input", { type: "text", maxlength: 500, "aria-label": t("talk.reply"), placeholder: t("talk.reply"), autocomplete: "off" });
    const form = make("form", { onsubmit: (event) => { event.preventDefault(); if (field.value.trim()) answer(field.value.trim()); } }, field, make("button", { type: "submit", class: "main", text: t("talk.answer") }));
    const buttons = choices.map((choice) => make("button", { type: "button", class: "main", text: choice, onclick: () => answer(choice) }));
    const asks = person ? t("talk.asksWhom", person) : t("talk.asks");
    return make("section", { class: "question", role: "alert", "aria-label": asks },
      make("p", { class: "head" }, make("span", { class: "who", text: asks }), make("span", { class: "left", "aria-live": "off" })),
      make("p", { class: "text", text }), ...(why ? [make("p", { class: "why", text: why })] : []),
      ...(choices.length ? [make("div", { class: "buttons" }, ...buttons)] : []), ...(choices.length && !any_words ? [] : [form]),
      ...(person ? [make("label", {}, secret, t("talk.private"))] : []), said);
  }
}
