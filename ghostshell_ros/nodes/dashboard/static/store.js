// SPDX-License-Identifier: Apache-2.0
// The state as the node sends it, and the story: what was heard of calls, tasks and talk, also before the node was started anew.

const MOST_CALLS = 20000;
const MOST_CHAT = 500;
const MOST_TASKS = 5000;
export const ENDED = ["SUCCESS", "FAILED", "STOPPED"];

/** Return the name of a recording's robot among those of the state; "" for none. */
export const isReplay = (robot) => robot.startsWith("▶");

function reach(root, path) {
  let node = root;
  for (const key of path.slice(0, -1)) {
    if (node === null || typeof node !== "object") return null;
    node = node[key];
  }
  return node !== null && typeof node === "object" ? node : null;
}

/** Apply one patch to the state. Return whether all of it fitted. */
export function apply(state, { set = [], del = [] }) {
  for (const path of del) {
    const node = reach(state, path);
    if (node === null) return false;
    const last = path[path.length - 1];
    if (Array.isArray(node)) node.splice(last, 1);
    else delete node[last];
  }
  for (const [path, value] of set) {
    const node = reach(state, path);
    if (node === null) return false;
    node[path[path.length - 1]] = value;
  }
  return true;
}

/** Return the state in which a task is: [name, since, why]. */
export const taskState = (task) => task.states?.[task.states.length - 1] ?? ["WAITING", -1, ""];

/** Return whether a task has ended. */
export const hasEnded = (task) => ENDED.includes(taskState(task)[0]);

/** Return how a call stands: queued, running, an outcome, or unheard where its end was missed. */
export function standing(call) {
  if (call.outcome) return call.outcome;
  if (call.end >= 0) return "DONE";
  if (call.unheard) return "unheard";
  return call.start >= 0 ? "running" : "queued";
}

class Story {
  constructor() {
    this.calls = new Map();
    this.tasks = new Map();
    this.chat = new Map();
    /** Ids of the calls of each task. */
    this.ofTask = new Map();
    /** By task, a number that rises with each change of one of its calls. */
    this.changes = new Map();
    /** Ids of calls that are news to the timeline. */
    this.touched = new Set();
  }

  /** Return the calls of a task: [id, call], in the order in which they were heard of. */
  callsOf(task) {
    return [...(this.ofTask.get(task) ?? [])].map((id) => [id, this.calls.get(id)]);
  }

  call(id, call) {
    this.calls.set(id, call);
    this.touched.add(id);
    this.changes.set(call.process, (this.changes.get(call.process) ?? 0) + 1);
    if (!this.ofTask.has(call.process)) this.ofTask.set(call.process, new Set());
    this.ofTask.get(call.process).add(id);
    if (this.calls.size > MOST_CALLS) {
      const oldest = this.calls.keys().next().value;
      this.ofTask.get(this.calls.get(oldest).process).delete(oldest);
      this.calls.delete(oldest);
      this.touched.add(oldest);
    }
  }

  task(id, task) {
    this.tasks.set(id, task);
    if (this.tasks.size > MOST_TASKS) this.tasks.delete(this.tasks.keys().next().value);
  }

  lines(chat) {
    for (const line of chat) this.chat.set(`${line.at}|${line.from}|${line.text}`, line);
    while (this.chat.size > MOST_CHAT) this.chat.delete(this.chat.keys().next().value);
  }

  /** Take all of a robot anew. What its node no longer knows of stays, but nothing of it goes on. */
  all(robot) {
    for (const [id, call] of this.calls) if (!(id in robot.calls) && !call.outcome && call.end < 0) this.call(id, { ...call, unheard: true });
    for (const id of this.tasks.keys()) if (!(id in robot.processes) && !hasEnded(this.tasks.get(id))) this.tasks.delete(id);
    for (const [id, call] of Object.entries(robot.calls)) this.call(id, call);
    for (const [id, task] of Object.entries(robot.processes)) this.task(id, task);
    this.lines(robot.chat);
  }
}

/** Hold the state and the story of each robot. */
export class Store {
  constructor() {
    this.state = null;
    this.rev = -1;
    this.stories = new Map();
    this.heardAt = 0;
    /** By how much the node's clock is ahead of the page's, in seconds. */
    this.ahead = -Infinity;
  }

  /** Take a message of the node. Return false where the state has to be sent anew. */
  take(message) {
    if (message.t === "snapshot") {
      this.state = message.state;
      for (const [name, robot] of Object.entries(this.state.robots)) this.story(name).all(robot);
    } else if (message.t === "patch") {
      if (this.state === null || message.rev !== this.rev + 1 || !apply(this.state, message)) return false;
      this.follow(message);
    }
    this.rev = message.rev;
    this.heardAt = performance.now() / 1000;
    // The node tells whole seconds: its clock is at least there.
    const ahead = this.state.now - this.heardAt;
    if (ahead > this.ahead || ahead < this.ahead - 3) this.ahead = ahead;
    return true;
  }

  follow({ set = [], del = [] }) {
    const whole = new Set();
    for (const [path] of set) {
      const [top, name, part, id] = path;
      if (top !== "robots" || name === undefined) {
        if (top === "robots") for (const robot of Object.keys(this.state.robots)) whole.add(robot);
        continue;
      }
      const robot = this.state.robots[name];
      if (part === undefined || (id === undefined && (part === "calls" || part === "processes"))) whole.add(name);
      else if (part === "calls" && robot.calls[id]) this.story(name).call(id, robot.calls[id]);
      else if (part === "processes" && robot.processes[id]) this.story(name).task(id, robot.processes[id]);
      else if (part === "chat") this.story(name).lines(robot.chat);
    }
    for (const path of del) if (path[0] === "robots" && path.length === 2 && isReplay(path[1])) this.stories.delete(path[1]);
    for (const name of whole) if (this.state.robots[name]) this.story(name).all(this.state.robots[name]);
  }

  story(name) {
    if (!this.stories.has(name)) this.stories.set(name, new Story());
    return this.stories.get(name);
  }

  /** Return the time on the node's clock, as far as it can be told. */
  now(up = true) {
    return this.state === null ? 0 : this.ahead + (up ? performance.now() / 1000 : this.heardAt);
  }
}
