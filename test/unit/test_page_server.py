# SPDX-License-Identifier: Apache-2.0
"""The server of the page, over real sockets: who is let in, what each client gets, and that every act has one outcome."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from served_page import Served, heard, served
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ghostshell_ros import halt_door
from ghostshell_ros.nodes.dashboard import server
from ghostshell_ros.nodes.dashboard.access import MAX_RECORD, Access, Record, Visitor, unreachable
from ghostshell_ros.nodes.dashboard.acts import Acts
from ghostshell_ros.nodes.dashboard.halts import Halts
from ghostshell_ros.nodes.dashboard.server import MAX_ACTS, MAX_CLIENTS, MAX_MESSAGE, MAX_WORDS
from skill_kernel.roles import Act, Keys, Role

pytestmark = pytest.mark.component


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as made:
        yield made


def get(page: Served, path: str = "/", **headers: str) -> http.client.HTTPResponse:
    link = http.client.HTTPConnection("127.0.0.1", page.port, timeout=5)
    link.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    return link.getresponse()


# -- who is let in ------------------------------------------------------------------------------------------------------


def test_the_token_of_the_address_becomes_a_cookie(page: Served) -> None:
    entered = get(page, f"/?token={page.access.token()}")
    cookie = entered.getheader("Set-Cookie", "")
    assert entered.status == 303 and entered.getheader("Location") == "/"
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and page.access.token() in cookie
    shown = get(page, "/", Cookie=cookie.split(";")[0])
    assert shown.status == 200 and b"<script" in shown.read()
    assert "default-src 'self'" in shown.getheader("Content-Security-Policy", "")
    assert shown.getheader("X-Content-Type-Options") == "nosniff" and shown.getheader("Referrer-Policy") == "no-referrer"


def test_nothing_is_shown_without_a_token(page: Served) -> None:
    for path in ("/", "/main.js", "/?token=user.0", "/?token=", "/?token=safety.%00", "/../server.py", "/%2e%2e/node.py"):
        assert get(page, path).status == 403


def test_no_file_but_those_of_the_page_is_served(page: Served) -> None:
    for path in ("/../server.py", "/%2e%2e/server.py", "/..%2fserver.py", "//etc/passwd", "/static/../../node.py"):
        assert get(page, path, Cookie=page.cookie()).status == 404


def test_files_that_colcon_linked_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (linked := tmp_path / "static").mkdir()
    for path in server.STATIC.iterdir():
        (linked / path.name).symlink_to(path)
    monkeypatch.setattr(server, "STATIC", linked)
    with served(tmp_path) as page:
        for path in ("/", "/main.js"):
            assert get(page, path, Cookie=page.cookie()).status == 200
        assert get(page, "/../page/session", Cookie=page.cookie()).status == 404


def test_another_name_that_leads_here_is_refused(page: Served) -> None:
    for host in ("evil.example", "evil.example:8780", "127.0.0.1.evil.example", "localhost@evil", "[::1", "x" * 5000):
        assert get(page, "/", Host=host, Cookie=page.cookie()).status == 403
        with pytest.raises((InvalidStatus, ConnectionClosed)), page.socket(Host=host):
            pass


def test_a_foreign_page_opens_no_socket(page: Served) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://", "http://localhost:8780", None):
        for path in ("/ws", "/halt", "/camera/kalos/camera/image_raw"):
            with pytest.raises(InvalidStatus) as refused, page.socket(path, Origin=origin):
                pass
            assert refused.value.response.status_code == 403


def test_a_foreign_page_reads_nothing(page: Served) -> None:
    assert get(page, "/", Origin="http://evil.example", Cookie=page.cookie()).status == 403


def test_a_socket_needs_a_token(page: Served) -> None:
    for token in ("user.0", "operator." + "0" * 64, page.access.token(Role.VIEWER).replace("viewer", "operator")):
        with pytest.raises(InvalidStatus), page.socket(token=token):
            pass


def test_a_program_may_bear_its_token(page: Served) -> None:
    bearer = f"Bearer {page.access.token(Role.VIEWER)}"
    assert get(page, "/", Authorization=bearer).status == 200
    with page.socket(token="none", Authorization=bearer) as link:
        assert heard(link)["state"]["you"]["name"] == "viewer"


def test_old_tokens_end_at_once(page: Served) -> None:
    old = page.access.token()
    with page.socket() as link:
        heard(link)
        page.access.renew()
        link.send(json.dumps({"t": "do", "id": 1, "act": "stop", "robot": "kalos"}))
        answer = heard(link)
        assert not answer["ok"] and "ghostshell page" in answer["message"] and not page.robots.done
        page.state.robots["kalos"].sign(1.0)
        page.state.robots["kalos"].facts("cameras", ["a"])
        page.publish()
        with pytest.raises(ConnectionClosed):
            for _ in range(3):
                heard(link)
    assert get(page, "/", Cookie=page.cookie(old)).status == 403
    with page.socket() as link:
        assert heard(link)["t"] == "snapshot"


def test_a_page_under_another_name_is_let_in_by_it(tmp_path: Path) -> None:
    with served(tmp_path, ("robot.lan",)) as page:
        assert get(page, "/", Host=f"ROBOT.lan:{page.port}", Cookie=page.cookie()).status == 200
    assert unreachable("0.0.0.0", []) and not unreachable("0.0.0.0", ["robot.lan"]) and not unreachable("127.0.0.1", [])


def test_a_role_may_what_its_key_may_and_the_user_never_acts_as_safety(page: Served, tmp_path: Path) -> None:
    assert Visitor(None).acts == [act.name for act in Act if act is not Act.CLEAR_SAFETY]
    assert Visitor(None).signs(Act.APPROVE) is Role.APPROVER and Visitor(None).signs(Act.CLEAR) is Role.OPERATOR
    assert Visitor(Role.VIEWER).refusal(Act.INSTRUCT) and not Visitor(Role.SAFETY).refusal(Act.CLEAR_SAFETY)
    assert Visitor(Role.SAFETY).signs(Act.CLEAR) is Role.SAFETY
    seen = Access(Keys(tmp_path / "keys"), tmp_path / "page")
    assert [seen.visitor(page.access.token(role)) for role in (None, Role.APPROVER)] == [Visitor(None), Visitor(Role.APPROVER)]
    assert seen.visitor("anonymous.0") is None and seen.visitor("user.\u00e9") is None


def test_the_key_of_one_role_makes_no_token_of_the_user(tmp_path: Path) -> None:
    owner, other = Access(Keys(tmp_path / "keys"), tmp_path / "page"), Access(Keys(tmp_path / "copied"), tmp_path / "page")
    owner.token()
    (tmp_path / "copied").mkdir()
    for role in ("operator", "approver"):
        (tmp_path / "copied" / f"{role}.key").write_bytes((tmp_path / "keys" / f"{role}.key").read_bytes())
        (tmp_path / "copied" / f"{role}.key").chmod(0o600)
        left = {"operator": "approver", "approver": "operator"}[role]
        (tmp_path / "copied" / f"{left}.key").unlink(missing_ok=True)
        assert owner.visitor(other.token()) is None
        assert owner.visitor(other.token(Role(role))) == Visitor(Role(role))


def test_session_and_record_are_their_owners_alone_and_the_record_has_an_end(tmp_path: Path) -> None:
    Access(Keys(tmp_path / "keys"), tmp_path / "page").token()
    record = Record(tmp_path / "page")
    for n in range(2 * MAX_RECORD // 50_000):
        record.write(Visitor(Role.VIEWER), "::1", act="stop", n=n, text="x" * 50_000)
    files = sorted((tmp_path / "page").iterdir())
    assert [file.name for file in files] == ["acts.jsonl", "acts.old.jsonl", "session"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert sum(file.stat().st_size for file in files) < 2 * MAX_RECORD + 200_000


# -- what each client gets ----------------------------------------------------------------------------------------------


def test_a_client_gets_the_state_and_then_what_changes(page: Served) -> None:
    with page.socket() as link:
        first = heard(link)
        assert first["t"] == "snapshot" and first["state"]["you"]["name"] == "user"
        page.state.robots["kalos"].halt(on=True, cause="<img src=x onerror=alert(1)>")
        page.publish()
        change = heard(link)
        assert change == {"t": "patch", "rev": first["rev"] + 1, "set": change["set"], "del": []}
        assert [["robots", "kalos", "halted", "cause"], "<img src=x onerror=alert(1)>"] in change["set"]
        assert page.robots.clients == 1
    while page.robots.clients:
        time.sleep(0.01)


def test_a_slow_client_gets_a_snapshot_and_never_a_queue(page: Served) -> None:
    with page.socket() as quick, page.socket(room=1) as slow:
        heard(quick)
        robot = page.state.robots["kalos"]
        for n in range(60):
            robot.facts("diagnostics", {str(k): {"level": n, "message": "x" * 20_000 + str(n)} for k in range(20)})
            page.publish()
            assert heard(quick)["t"] == "patch"
        told = []
        while not told or told[-1].get("rev") != page.page.rev:
            told.append(heard(slow))
        revs = [message["rev"] for message in told]
        assert revs == sorted(revs) and len(told) < 60
        assert all(m["t"] == "snapshot" or m["rev"] == before + 1 for m, before in zip(told[1:], revs, strict=False))
        assert told[-1]["rev"] == page.page.rev


def test_there_is_room_for_so_many_clients(page: Served) -> None:
    with ExitStack() as links:
        for _ in range(MAX_CLIENTS):
            link = links.enter_context(page.socket())
        with pytest.raises((InvalidStatus, ConnectionClosed)), page.socket() as more:
            heard(more)
        link.close()
        while page.robots.clients == MAX_CLIENTS:
            time.sleep(0.01)
        with page.socket() as another:
            assert heard(another)["t"] == "snapshot"


# -- acts, halts and pictures -------------------------------------------------------------------------------------------


def test_each_act_has_one_outcome_and_is_recorded(page: Served) -> None:
    with page.socket(token=page.access.token(Role.OPERATOR)) as link:
        heard(link)
        for n in range(3):
            link.send(
                json.dumps({"t": "do", "id": n, "act": "instruct", "robot": "kalos", "text": "<b>sit</b>", "detach": True})
            )
        assert sorted(heard(link)["id"] for _ in range(3)) == [0, 1, 2]
    assert page.robots.done[0] == ("operator", "instruct", "kalos", {"t": "do", "text": "<b>sit</b>", "detach": True})
    assert [(r["role"], r["address"], r["act"], r["ok"]) for r in page.robots.recorded] == [
        ("operator", "127.0.0.1", "instruct", True)
    ] * 3


@pytest.mark.parametrize("act", ["answer", "instruct"])
def test_a_private_answer_is_recorded_as_one_without_its_words(page: Served, act: str) -> None:
    with page.socket() as link, page.socket() as another:
        heard(link), heard(another)
        for text in ("private: no, I see a doctor", "yes"):
            link.send(json.dumps({"t": "do", "id": 1, "act": act, "robot": "office", "question": "3fa2", "text": text}))
            assert heard(link)["ok"]
        with pytest.raises(TimeoutError):
            heard(another, 0.1)
    assert [done[-1]["text"] for done in page.robots.done] == ["private: no, I see a doctor", "yes"]
    assert [recorded["about"]["text"] for recorded in page.robots.recorded] == ["(private)", "yes"]


def test_a_private_answer_becomes_no_instruction() -> None:
    sent: list[str] = []
    services: Any = SimpleNamespace(instruct=lambda text, sender, role, then: sent.append(text))
    acts = Acts(cast("Any", None), {"office": cast("Any", SimpleNamespace(services=services))}, lambda *_: None)
    told: list[tuple[bool, str]] = []
    for text in (" Private: no, I see a doctor", "bark"):
        acts.do(Visitor(None), "instruct", "office", {"text": text}, {}, lambda *came: told.append(came))
    assert sent == ["bark"]
    assert len(told) == 1 and not told[0][0] and "question" in told[0][1] and "doctor" not in told[0][1]


def test_acts_have_limits(page: Served) -> None:
    with page.socket() as link:
        heard(link)
        link.send(json.dumps({"t": "do", "id": 1, "act": "instruct", "robot": "kalos", "text": "x" * (MAX_WORDS + 1)}))
        assert not heard(link)["ok"]
        link.send(json.dumps({"t": "do", "id": 2, "act": ["instruct"], "robot": {}, "text": None}))
        assert not heard(link)["ok"]
        page.robots.answers.clear()
        for n in range(MAX_ACTS + 1):
            link.send(json.dumps({"t": "do", "id": n, "act": "stop", "robot": "kalos"}))
        assert heard(link) == {
            "t": "did",
            "id": MAX_ACTS,
            "ok": False,
            "message": f"{MAX_ACTS} acts of this page wait already; try again",
        }
        page.loop.call_soon_threadsafe(page.robots.answers.set)
        assert {heard(link)["ok"] for _ in range(MAX_ACTS)} == {True}


NONSENSE = ("", "[", "[]", '{"t":"do"}', '{"t":"do","id":"1"}', '{"t":"x","id":1}', "[" * 10_000, b"\x00\xff")


def test_what_is_not_understood_ends_the_connection_and_no_other(page: Served) -> None:
    with page.socket() as good:
        heard(good)
        for said in NONSENSE:
            with page.socket() as bad:
                heard(bad)
                bad.send(said)
                with pytest.raises(ConnectionClosed):
                    heard(bad)
        good.send(json.dumps({"t": "do", "id": 1, "act": "stop", "robot": "kalos"}))
        assert heard(good)["ok"]


def test_a_message_that_is_too_long_is_not_read(page: Served) -> None:
    with page.socket() as link, page.socket("/halt") as halts:
        heard(link)
        for one in (link, halts):
            one.send("x" * (MAX_MESSAGE + 1))
            with pytest.raises(ConnectionClosed):
                one.recv(5)
    assert not page.robots.done


def test_a_halt_is_answered_by_the_gate_also_for_a_viewer(page: Served) -> None:
    with page.socket("/halt", token=page.access.token(Role.VIEWER)) as link:
        link.send(json.dumps({"robot": "kalos", "cause": "page"}))
        assert heard(link) == {"robot": "kalos", "ok": True, "message": "halted"}
    assert page.robots.done == [("", "halt", "kalos", {"cause": "page, viewer at 127.0.0.1"})]


def test_every_robot_of_the_page_is_halted_at_once(page: Served) -> None:
    robots = [f"robot_{n}" for n in range(MAX_CLIENTS)]
    with page.socket("/halt", room=64) as link:
        for robot in robots:
            link.send(json.dumps({"robot": robot, "cause": "page"}))
        assert sorted(heard(link)["robot"] for _ in robots) == sorted(robots)


def test_a_name_that_utf_8_cannot_carry_keeps_nobody_out(page: Served, tmp_path: Path) -> None:
    page.state.recordings = [odd := "caf\udce9.mcap"]
    page.publish()
    with page.socket() as link, page.socket("/halt") as halts:
        assert heard(link)["state"]["recordings"] == [odd]
        link.send(json.dumps({"t": "do", "id": 1, "act": odd, "robot": "kalos"}))
        assert heard(link)["message"] == f"{odd} is done"
        halts.send(json.dumps({"robot": odd}))
        assert heard(halts)["robot"] == odd
    Record(tmp_path).write(Visitor(None), "127.0.0.1", act="halt", robot=odd)
    assert json.loads((tmp_path / "acts.jsonl").read_text())["robot"] == odd


def test_who_may_not_clear_a_newer_halt_is_shown_its_number() -> None:
    gate = SimpleNamespace(success=False, message="a newer halt has come since", number=2)
    seen: list[int] = []
    services: Any = SimpleNamespace(
        name="kalos", ask=lambda service, request, role, then: then(gate), looked=lambda answer: seen.append(answer.number)
    )
    acts = Acts(cast("Any", None), {"kalos": cast("Any", SimpleNamespace(services=services))}, lambda *_: None)
    told: list[tuple[bool, str]] = []
    acts.do(Visitor(None), "clear", "kalos", {"number": 1}, {}, lambda *came: told.append(came))
    assert told == [(False, gate.message)] and seen == [2]


def test_a_gate_of_this_machine_that_does_not_answer_by_its_socket_is_asked_by_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halt_door, "halt", lambda *_: None)
    monkeypatch.setattr(halt_door, "robots_here", lambda _: ["kalos"])
    said = SimpleNamespace(success=True, message="halted")
    client = SimpleNamespace(node=SimpleNamespace(call_soon=lambda work: work()), ask=lambda _, tell, **__: tell(said))
    halts = Halts(0)
    monkeypatch.setattr(halts, "_client", lambda robot: client)
    assert halts.halt("kalos", "why", known=True) == (True, "halted")


def test_one_picture_is_under_way_at_a_time(page: Served) -> None:
    with page.socket("/camera/kalos/camera/image_raw") as eye:
        assert eye.recv(5) == page.robots.picture
        with pytest.raises(TimeoutError):
            eye.recv(0.2)
        eye.send("ok")
        assert eye.recv(5) == page.robots.picture
    while len(page.robots.watched) < 2:
        time.sleep(0.01)
    assert page.robots.watched == [True, False] and page.robots.pictures <= 3
    with pytest.raises((InvalidStatus, ConnectionClosed)), page.socket("/camera/kalos/odom") as eye:
        eye.recv(5)


def test_nothing_is_left_of_a_client_that_takes_nothing_when_the_server_ends(tmp_path: Path) -> None:
    with served(tmp_path) as page:
        page.robots.picture = bytes(8_000_000)
        with socket.create_connection(("127.0.0.1", page.port)) as deaf:
            path = "/camera/kalos/camera/image_raw"
            key = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nUpgrade: websocket"
            more = f"Origin: http://{page.address}\r\nCookie: {page.cookie()}\r\nConnection: Upgrade\r\n{key}"
            deaf.sendall(f"GET {path} HTTP/1.1\r\nHost: {page.address}\r\n{more}\r\n\r\n".encode())
            deaf.settimeout(5)
            with deaf.makefile("rb", buffering=0) as answer:
                assert answer.readline().startswith(b"HTTP/1.1 101")
                while answer.readline() != b"\r\n":
                    pass
                answer.read(1)
            # The first picture fills the line, so that the next one has to wait.
            deaf.sendall(b"\x81\x82\0\0\0\0ok")
            for _ in range(500):
                if page.robots.pictures == 2:
                    break
                time.sleep(0.01)
            assert page.robots.pictures == 2
            page.close()
    assert asyncio.all_tasks(page.loop) == set()
