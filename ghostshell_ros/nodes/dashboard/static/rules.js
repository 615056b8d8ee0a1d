// SPDX-License-Identifier: Apache-2.0
// The rules of the robot, of whatever kind: what they are, how they stand, and what can be done with each.

import { byId, list, make, say, set } from "./dom.js";
import { isReplay } from "./store.js";
import { t } from "./words.js";

const SURE_MS = 5000;
const HARMLESS = ["test"];

const id = (rule) => `${rule.kind}/${rule.name}`;

/** Show the rules; `act(name, about)` sends an act to the robot that is shown. */
export class Rules {
  constructor(act) {
    this.act = act;
    this.kind = "";
  }

  show(name, robot) {
    const rules = robot.rules ?? [];
    const kinds = [...new Set(rules.map((rule) => rule.kind))];
    if (!kinds.includes(this.kind)) this.kind = "";
    list(byId("rule-kinds"), kinds.length > 1 ? ["", ...kinds] : [], (kind) => kind, (kind) => make("button", { type: "button", text: kind ? t(`kind.${kind}`) : t("rules.all"), onclick: () => { this.kind = kind; this.show(name, this.robot); } }), (node, kind) => set(node, "aria-pressed", String(kind === this.kind)));
    this.robot = robot;
    const shown = rules.filter((rule) => !this.kind || rule.kind === this.kind);
    list(byId("rules"), shown, id, () => this.card(), (card, rule) => this.fill(card, rule, !isReplay(name)));
    byId("rules-none").hidden = shown.length > 0;
  }

  card() {
    return make("li", {}, make("p", { class: "head" }, make("span", { class: "state" }), make("span", { class: "who" }), make("span", { class: "name" })), make("p", { class: "text" }),
      make("details", {}, make("summary", { text: t("rules.details") }), make("dl")), make("div", { class: "buttons" }), make("p", { class: "said", role: "status" }));
  }

  fill(card, rule, acts) {
    set(card, "data-state", rule.state);
    say(card.querySelector(".state"), t(`rule.${rule.state}`.toLowerCase()));
    say(card.querySelector(".who"), t(`kind.${rule.kind}`));
    say(card.querySelector(".name"), rule.name);
    say(card.querySelector(".text"), rule.text);
    const detail = rule.detail ?? [];
    card.querySelector("details").hidden = detail.length === 0;
    list(card.querySelector("dl"), detail, ([label]) => label, ([label]) => make("div", {}, make("dt", { text: label }), make("dd")), (line, [, text]) => say(line.lastChild, text));
    list(card.querySelector(".buttons"), acts ? (rule.actions ?? []) : [], (action) => action, (action) => this.button(card, rule, action), () => {});
  }

  /** Make a button; what changes a rule is asked for twice. */
  button(card, { kind, name, text }, action) {
    const words = t(`action.${action}`);
    const button = make("button", { type: "button", text: words });
    let sure = HARMLESS.includes(action);
    button.addEventListener("click", async () => {
      if (!sure) {
        sure = true;
        say(button, t("rules.sure", words));
        set(button, "data-sure", "true");
        setTimeout(() => {
          sure = false;
          say(button, words);
          set(button, "data-sure", null);
        }, SURE_MS);
        return;
      }
      const said = card.querySelector(".said");
      button.disabled = true;
      say(said, t("rules.busy"));
      const { ok, message } = await this.act("rule", { kind, name, action, text });
      button.disabled = false;
      set(said, "data-bad", ok ? null : "true");
      say(said, message);
    });
    return button;
  }
}
