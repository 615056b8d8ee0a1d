// SPDX-License-Identifier: Apache-2.0
// What the robot observes, each value with its age, and how its nodes and drivers are.

import { byId, list, make, say, set } from "./dom.js";
import { long, t } from "./words.js";

/** Show the observation. */
export function showFacts(robot) {
  const facts = Object.entries(robot.observation ?? {});
  list(byId("facts"), facts, ([name]) => name, ([name]) => make("tr", {}, make("th", { scope: "row", text: name }), make("td"), make("td", { class: "n" })), (row, [, fact]) => {
    const missing = fact.value === null || fact.value === "";
    set(row, "title", fact.role);
    set(row, "data-old", fact.stale || missing ? "true" : null);
    say(row.children[1], missing ? t("facts.missing") : String(fact.value));
    const age = typeof fact.age !== "number" || fact.age < 0 ? "" : fact.age < 1 ? t("facts.now") : long(fact.age);
    say(row.children[2], fact.stale && age ? t("facts.stale", age) : age);
  });
  const stale = facts.filter(([, fact]) => fact.stale).length;
  say(byId("facts-note"), stale ? t("facts.staleCount", stale) : "");
  byId("facts-none").hidden = facts.length > 0;
}

/** Show diagnostics and drivers, what is not well first. */
export function showHealth(robot) {
  const nodes = Object.entries(robot.diagnostics ?? {}).map(([name, { level, message }]) => ({ name, level: Number(level), message }));
  nodes.sort((a, b) => b.level - a.level || a.name.localeCompare(b.name));
  const drivers = Object.entries(robot.drivers ?? {}).map(([name, state]) => ({ name, level: null, message: String(state) }));
  list(byId("health"), [...nodes, ...drivers], (item) => `${item.level === null} ${item.name}`, () => make("li", {}, make("span", { class: "state" }), make("span", { class: "name" }), make("span", { class: "message" })), (line, item) => {
    set(line, "data-level", item.level ?? 0);
    say(line.children[0], item.level === null ? t("health.driver") : t(`level.${item.level}`));
    say(line.children[1], item.name);
    say(line.children[2], item.message);
  });
  const bad = nodes.filter((node) => node.level > 0).length;
  byId("health-none").hidden = nodes.length + drivers.length > 0;
  say(byId("health-note"), nodes.length ? (bad ? t("health.bad", bad) : t("health.well")) : "");
}
