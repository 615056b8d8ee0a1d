# SPDX-License-Identifier: Apache-2.0
"""The page by itself, with a state made by the test: what it shows, sends, refuses to run, and how it can be worked."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_kit import NOW_S, PHONE, PICTURES, STATIC, WIDE, MadeServer, busy_robot, call, long_recording, quiet_robot, state_of
from playwright.sync_api import Page, expect

AXE = Path(__file__).resolve().parents[2] / ".browser/node_modules/axe-core/axe.min.js"
VIEWS = ["talk", "see", "tasks", "time", "rules", "more"]
NASTY = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>"
LARGEST_BYTES = 200_000
MOST_MS_A_DRAW = 16


def shown(new_page: Callable[..., Page], robots: dict[str, Any], *args: Any, **more: Any) -> tuple[Page, MadeServer]:
    """Open the page with these robots."""
    page = new_page(*args, **more)
    server = MadeServer(page, state_of(robots))
    server.open()
    return page, server


def test_nothing_can_turn_text_into_elements() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|setHTML|createContextual"
    )
    for path in STATIC.glob("*.js"):
        assert not re.findall(forbidden, path.read_text()), path.name
    assert not re.findall(r"\son\w+=|<style|style=|https?://", (STATIC / "index.html").read_text())


def test_it_is_small_and_needs_nothing_from_elsewhere() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) < LARGEST_BYTES
    for path in [*STATIC.glob("*.js"), *STATIC.glob("*.css")]:
        assert not re.findall(r"""(?:from|import\(?|url\()\s*["']?(?:https?:)?//""", path.read_text()), path.name


def test_every_word_is_there_in_both_languages() -> None:
    words = (STATIC / "words.js").read_text()
    english, chinese = (re.findall(r'^  "?([\w.]+)"?: "', part, re.M) for part in words.split("const ZH")[:2])
    assert english and english == chinese
    used = set(re.findall(r'\bt\("([\w.]+)"', "".join(path.read_text() for path in STATIC.glob("*.js"))))
    used |= set(re.findall(r'data-t(?:-label|-hint)?="([\w.]+)"', (STATIC / "index.html").read_text()))
    assert used <= set(english)


def test_space_halts_but_never_where_text_is_written(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()})
    page.locator("#instruction").click()
    page.keyboard.type("walk to the door and back", delay=5)
    expect(page.locator("#stop")).to_contain_text("Ctrl Space")
    page.locator("#memory-text").click()
    page.keyboard.type("where is it", delay=5)
    page.get_by_label("Reply").click()
    page.keyboard.type("a b", delay=5)
    assert server.halts == []
    assert page.locator("#instruction").input_value() == "walk to the door and back"
    page.keyboard.press("Escape")
    page.keyboard.press("Space")
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    assert server.halts == ["kalos"]


def test_ctrl_space_halts_everywhere_and_a_held_key_only_once(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    page.locator("#instruction").fill("walk")
    page.locator("#instruction").focus()
    page.keyboard.down("Control")
    page.keyboard.down("Space")
    page.keyboard.down("Space")
    page.keyboard.up("Space")
    page.keyboard.up("Control")
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    assert server.halts == ["kalos"]
    assert page.locator("#instruction").input_value() == "walk"


def test_after_a_click_on_a_button_space_halts_and_does_not_press_it(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()})
    page.get_by_role("button", name="Pause").first.click()
    page.keyboard.press("Space")
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    assert [act["act"] for act in server.acts] == ["pause"]
    page.get_by_role("button", name="Pause").first.focus()
    page.keyboard.press("Space")
    assert len(server.halts) == 1, "a button that was reached by the keyboard is worked by the space bar"


def test_stop_is_shown_only_as_the_latched_state_says(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    server.halting = False
    page.locator("#stop").click()
    expect(page.locator("#halt-state")).to_have_text("NOT CONFIRMED: use the robot's own switch", timeout=1000)
    expect(page.locator("#clear")).to_be_hidden()
    server.patch((["robots", "kalos", "halted"], {"on": True, "cause": "page", "number": 1}))
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    page.locator("#clear").click()
    expect(page.locator("#news")).to_have_text("done")
    assert (server.acts[-1]["act"], server.acts[-1]["number"]) == ("clear", 1)
    server.patch((["robots", "kalos", "halted"], {"on": False, "cause": "", "number": 1}))
    expect(page.locator("#halt-state")).to_have_text("")


def test_stop_halts_all_robots_and_one_can_be_halted_alone(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot(), "coco": quiet_robot(), "▶ old.mcap": quiet_robot()})
    page.get_by_role("button", name="Stop kalos").click()
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    assert server.halts == ["kalos"]
    page.get_by_role("button", name="STOP ALL").click()
    page.get_by_role("tab", name="coco").click()
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    assert server.halts == ["kalos", "kalos", "coco"]


def test_a_halt_of_which_no_robot_is_known_is_not_confirmed(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {})
    page.keyboard.press("Space")
    expect(page.locator("#halt-state")).to_contain_text("NOT CONFIRMED: use the robot's own switch", timeout=1000)


def test_a_halt_that_was_asked_for_without_connection_is_asked_for_again(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    server.cut_halt()
    page.locator("#stop").click()
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page", timeout=2000)


def test_an_instruction_is_sent_and_a_refused_one_is_kept(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    box = page.locator("#instruction")
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type("sit down")
    page.keyboard.press("Enter")
    expect(box).to_have_value("")
    act = server.acts[-1]
    assert (act["act"], act["robot"], act["text"], act["detach"]) == ("instruct", "kalos", "sit down", True)
    server.answers["instruct"] = (False, "viewer may not instruct, operator may")
    box.fill("go on")
    page.keyboard.press("Enter")
    expect(page.locator("#composer-note")).to_have_text("viewer may not instruct, operator may")
    expect(box).to_have_value("go on")


def test_an_answer_streams_and_its_calls_come(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()})
    server.patch((["robots", "kalos", "streams", "p1"], 'Woof. <bark times="2"/>'))
    server.patch((["robots", "kalos", "calls", "c9"], call("p1", "bark", ["sound"], NOW_S, label="bark(2)")))
    line = page.locator(".line.person", has_text="Look for a ball")
    expect(line.locator(".stream")).to_have_text('Woof. <bark times="2"/>')
    expect(line.locator("code")).to_have_text('<bark times="2"/>')
    expect(line.locator(".chips li", has_text="bark(2)")).to_have_attribute("data-outcome", "running")


def test_questions_are_answered_by_choice_or_in_words(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()})
    page.get_by_role("button", name="the blue one").click()
    asks_li = page.locator(".question", has_text="It asks Li")
    expect(asks_li).to_contain_text("Wang needs it today")
    expect(asks_li.get_by_role("button", name="later")).to_be_visible()
    asks_li.get_by_label("in private").check()
    page.get_by_label("Reply").fill("ask Bo instead")
    page.keyboard.press("Enter")
    expect(page.locator("#questions .said").last).to_have_text("done")
    answers = [(act["question"], act["text"]) for act in server.acts]
    assert answers == [("q1", "the blue one"), ("q2", "private: ask Bo instead")]
    server.patch(deleted=(["robots", "kalos", "questions", "q1"],))
    expect(page.locator(".question")).to_have_count(1)


def test_a_rule_is_tested_at_once_and_approved_after_a_second_look(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()})
    server.answers["rule"] = (True, "It would have fired twice in the last 60 s.")
    card = page.locator("#rules > li", has_text="whenever a person comes into view")
    card.get_by_role("button", name="Test").click()
    expect(card.locator(".said")).to_have_text("It would have fired twice in the last 60 s.")
    card.get_by_role("button", name="Approve").click()
    assert len(server.acts) == 1
    card.get_by_role("button", name="Approve: sure?").click()
    expect(card.locator(".said")).to_have_text("It would have fired twice in the last 60 s.")
    assert [(act["kind"], act["name"], act["action"]) for act in server.acts] == [
        ("reflex", "greet", "test"),
        ("reflex", "greet", "approve"),
    ]


def test_a_kind_of_rule_that_the_page_does_not_know_is_shown_all_the_same(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {"kalos": busy_robot()})
    page.locator("#rule-kinds").get_by_role("button", name="habit").click()
    expect(page.locator("#rules > li")).to_have_count(1)
    expect(page.locator("#rules")).to_contain_text("a kind that nobody knew when the page was written")


def test_the_memory_names_its_sources(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    records = [
        {"text": "I saw a ball.", "room": "lounge", "time": NOW_S, "kind": "sighting", "robot": "kalos", "source": "detector"}
    ]
    server.answers["memory"] = (True, json.dumps({"answer": "In the lounge.", "records": records}))
    page.locator("#memory-text").fill("where was the ball?")
    page.keyboard.press("Enter")
    expect(page.locator("#memory-found")).to_contain_text("In the lounge.")
    expect(page.locator("#memory-found li")).to_contain_text("I saw a ball.")
    expect(page.locator("#memory-found li")).to_contain_text("lounge")


def test_injected_markup_stays_text(new_page: Callable[..., Page]) -> None:
    robot = json.loads(
        re.sub(
            r'"(I see a red ball\.|greet|quiet|ball|lounge|camera/image|search\(ball\)|memory)"',
            json.dumps(NASTY).replace("\\", r"\\"),
            json.dumps(busy_robot()),
        )
    )
    page, server = shown(new_page, {"kalos": robot, NASTY: quiet_robot()})
    server.patch((["robots", "kalos", "streams", "p1"], NASTY))
    server.answers["memory"] = (True, json.dumps({"answer": NASTY, "note": NASTY, "records": [{"text": NASTY, "time": 1}]}))
    page.locator("#memory-text").fill("x")
    page.keyboard.press("Enter")
    expect(page.locator("#memory-found li")).to_contain_text("<img src=x")
    expect(page.locator(".stream", has_text="<script>")).to_be_visible()
    page.locator("#time-as-table summary").click()
    page.get_by_role("tab", name="<img").click()
    assert page.locator("img, script:not([src='main.js'])").count() == 0
    assert "hit" not in page.title().split("·")[-1] and page.title() != "hit"


def test_empty_stale_and_lost_are_said(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    for words in (
        "no camera",
        "no map yet",
        "Nothing has been said yet",
        "Nothing runs",
        "No call yet",
        "There are no rules",
        "Nothing is observed",
        "No node has said",
    ):
        expect(page.locator("#robot")).to_contain_text(words)
    server.patch((["robots", "kalos", "link"], "stale"), (["robots", "kalos", "age_s"], 3.0))
    expect(page.locator("#link")).to_have_text("stale: nothing heard for 3.0 s")
    server.patch((["robots", "kalos", "link"], "lost"), (["robots", "kalos", "age_s"], 30.0))
    expect(page.locator("#link")).to_have_text("lost: nothing heard for 30 s")
    server.patch((["robots"], {}))
    expect(page.locator("#nobody")).to_contain_text("No robot")


def test_a_node_that_starts_anew_is_found_and_the_story_stays(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()})
    expect(page.locator("#time-note")).to_have_text("9 calls")
    robot = quiet_robot()
    robot["calls"]["c10"] = call("p9", "sit", ["movement"], NOW_S + 1)
    server.state, server.rev = state_of({"kalos": robot}), 0
    begun = time.monotonic()
    server.cut()
    expect(page.locator("#time-note")).to_have_text("10 calls")
    assert time.monotonic() - begun < 2.0
    expect(page.locator("#chat")).to_contain_text("I see a red ball.")
    expect(page.locator(".chips li", has_text="search(ball)")).to_have_attribute("data-outcome", "unheard")


def test_a_page_whose_token_has_ended_says_what_to_open(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    server.refusing = True
    server.cut()
    expect(page.locator("#lost")).to_contain_text("./ghostshell page")
    server.refusing = False
    expect(page.locator("#lost")).to_be_hidden()


def test_a_patch_that_does_not_fit_brings_a_new_snapshot(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": quiet_robot()})
    server.rev += 5
    server.patch((["robots", "kalos", "chat"], [{"at": NOW_S, "from": "robot", "text": "late", "process": ""}]))
    expect(page.locator("#chat")).to_contain_text("late")


def test_pictures_are_asked_for_one_at_a_time_while_they_are_seen(new_page: Callable[..., Page]) -> None:
    page, server = shown(new_page, {"kalos": busy_robot()}, PHONE)
    page.wait_for_timeout(700)
    assert server.frames_ok == 0, "nobody looks"
    page.locator("#views [data-view=see]").click()
    expect(page.locator("#eyes figcaption")).to_contain_text("pictures a second")
    expect(page.locator("#eyes figcaption")).to_contain_text("picture is", timeout=15_000)


def test_ten_thousand_calls_move_smoothly(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {"kalos": quiet_robot(), "▶ long.mcap": long_recording(10_000)})
    page.get_by_role("tab", name="long.mcap").click()
    expect(page.locator("#time-note")).to_have_text("10000 calls")
    page.locator("#timeline").focus()
    page.keyboard.press("Home")
    costs = {}
    for zooms in (0, 3, 6, 10):
        costs[zooms] = page.evaluate(
            """(zooms) => {
                const canvas = document.getElementById("timeline");
                const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
                press("Home");
                for (let n = 0; n < zooms; n++) press("+");
                const took = [];
                for (let n = 0; n < 30; n++) {
                    const wait = performance.now() + 15;
                    while (performance.now() < wait);
                    const begun = performance.now();
                    press(n % 2 ? "ArrowLeft" : "ArrowRight");
                    took.push(performance.now() - begun);
                }
                return took.sort((a, b) => a - b)[5];
            }""",
            zooms,
        )
    print(costs)
    assert max(costs.values()) < MOST_MS_A_DRAW, costs


def test_the_timeline_is_worked_by_keys_and_tells_the_call(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {"kalos": busy_robot()})
    page.keyboard.press("t")
    expect(page.locator("#timeline")).to_be_focused()
    page.keyboard.press(".")
    expect(page.locator("#time-detail")).to_contain_text("stand() · done · 1.4 s · movement")
    for _ in range(4):
        page.keyboard.press(".")
    expect(page.locator("#time-detail")).to_contain_text("goto_waypoint(lounge)")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#follow")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("End")
    expect(page.locator("#follow")).to_have_attribute("aria-pressed", "true")
    page.locator("#time-as-table summary").click()
    expect(page.locator("#time-rows tr", has_text="grasp")).to_contain_text("it cannot grasp")


def test_a_call_is_told_where_it_is_pointed_at(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {"kalos": busy_robot()})
    page.get_by_role("button", name="All", exact=True).click()
    box = page.locator("#timeline").bounding_box()
    assert box
    for y in range(30, int(box["height"]), 9):
        page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + y)
    expect(page.locator("#time-detail")).to_contain_text("goto_waypoint(lounge) · interrupted")


def test_keys_go_to_robots_and_parts(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {"kalos": busy_robot(), "coco": quiet_robot()})
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="coco")).to_have_attribute("aria-selected", "true")
    page.get_by_role("tab", name="coco").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tab", name="kalos")).to_be_focused()
    page.keyboard.press("F6")
    page.keyboard.press("F6")
    expect(page.locator("section[aria-labelledby=map-title]")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("halt every robot")


def test_language_and_theme_are_switched_and_kept(new_page: Callable[..., Page]) -> None:
    page, _ = shown(new_page, {"kalos": busy_robot()})
    page.locator("#language").click()
    expect(page.locator("#talk-title")).to_have_text("对话")
    expect(page.get_by_role("button", name="试运行").first).to_be_visible()
    page.locator("#theme").click()
    page.reload()
    expect(page.locator("#talk-title")).to_have_text("对话")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_shows_each_part_whole_and_the_stop_always(new_page: Callable[..., Page], width: int) -> None:
    page, _ = shown(new_page, {"kalos": busy_robot(), "coco": quiet_robot()}, (width, 780), has_touch=True)
    for view in VIEWS:
        page.locator(f"#views [data-view={view}]").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        stop = page.locator("#stop").bounding_box()
        assert stop and stop["height"] >= 44 and stop["y"] + stop["height"] <= 780 and stop["x"] >= 0
        for panel in page.locator(f".panel[data-view={view}]").all():
            assert panel.evaluate("(node) => node.scrollWidth <= node.clientWidth"), view
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"phone_{width}_{view}.png")
    page.locator("#stop").tap()
    expect(page.locator("#halt-state")).to_have_text("STOPPED: page")
    expect(page.locator("#clear")).to_be_in_viewport()
    page.locator("#views [data-view=talk]").click()
    send, halt = page.locator("#composer button").bounding_box(), page.locator(".halt").bounding_box()
    assert send and halt and send["y"] + send["height"] <= halt["y"], "one can write while the robot is halted"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_serious(new_page: Callable[..., Page], size: tuple[int, int], theme: str) -> None:
    page, server = shown(new_page, {"kalos": busy_robot(), "coco": quiet_robot()}, size, theme=theme)
    server.patch((["robots", "kalos", "halted"], {"on": True, "cause": "page", "number": 1}))
    page.evaluate(AXE.read_text())
    for view in VIEWS if size == PHONE else ["talk"]:
        if size == PHONE:
            page.locator(f"#views [data-view={view}]").click()
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        serious = [
            (rule["id"], node["target"], node["failureSummary"])
            for rule in found
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]
        assert not serious, (view, serious)
