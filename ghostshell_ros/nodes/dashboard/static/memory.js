// SPDX-License-Identifier: Apache-2.0
// Questions to the memory, answered with their sources.

import { byId, make, say, set } from "./dom.js";
import { clock, t } from "./words.js";

function source(record) {
  const about = [record.time > 0 ? clock(record.time) : "", record.room, record.robot, record.kind, record.source].filter(Boolean);
  return make("li", {}, make("p", { class: "text", text: record.text }), make("p", { class: "head", text: about.join(" · ") }));
}

/** Let a person ask; `act(name, about)` sends an act to the robot that is shown. */
export function askMemory(act) {
  byId("memory-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = byId("memory-text").value.trim();
    const found = byId("memory-found");
    if (!text) return;
    found.replaceChildren(make("p", { class: "none", text: t("memory.asks") }));
    const { ok, message } = await act("memory", { text });
    let result = null;
    try {
      if (ok) result = JSON.parse(message);
    } catch {
      result = { answer: message };
    }
    if (result === null) {
      const said = make("p", { class: "said", text: message });
      set(said, "data-bad", "true");
      found.replaceChildren(said);
      return;
    }
    const records = result.records ?? result.sources ?? [];
    const answer = make("p", { class: "answer" });
    say(answer, result.answer || (records.length ? "" : t("memory.empty")));
    found.replaceChildren(answer);
    if (result.note) found.append(make("p", { class: "none", text: result.note }));
    if (records.length) found.append(make("p", { class: "head", text: t("memory.sources", records.length) }), make("ol", { class: "plain cards" }, ...records.map(source)));
  });
}
