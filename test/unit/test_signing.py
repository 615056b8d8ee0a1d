# SPDX-License-Identifier: Apache-2.0
"""A request is signed as a whole, whatever its interface, and the signature holds after the way through the middleware."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("ghostshell.srv", reason="needs the built interfaces")

from ghostshell.action import RunTask
from ghostshell.srv import CompileReflex, ControlHalt, QueryMemory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rclpy.serialization import deserialize_message, serialize_message

from ghostshell_ros.runtime.signing import Doorkeeper, signed
from skill_kernel.roles import Role

REQUESTS = (CompileReflex.Request, ControlHalt.Request, QueryMemory.Request, RunTask.Goal)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20),
    "boolean": st.booleans(),
    "uint8": st.integers(0, 255),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "double": st.floats(),
    "sequence<string>": st.lists(st.text("ab€", max_size=5), max_size=3),
    "sequence<uint8>": st.lists(st.integers(0, 255), max_size=3),
}


def node(namespace: str = "/coco", domain: int = 0) -> Any:
    return SimpleNamespace(
        context=SimpleNamespace(get_domain_id=lambda: domain), resolve_service_name=lambda name: f"{namespace}/{name}"
    )


@pytest.fixture(scope="module", autouse=True)
def keys(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GHOSTSHELL_KEYS", str(tmp_path_factory.mktemp("keys")))
        yield


@st.composite
def requests(draw: st.DrawFn) -> Any:
    request = draw(st.sampled_from(REQUESTS))()
    for name, kind in request.get_fields_and_field_types().items():
        if kind in VALUES and name != "proof":
            setattr(request, name, draw(VALUES[kind]))
    return request


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(request=requests(), data=st.data())
def test_a_proof_outlives_the_middleware_and_no_change_of_any_field(request: Any, data: st.DataObject) -> None:
    sent = signed(node(), "control_halt", request, Role.OPERATOR)
    arrived = deserialize_message(serialize_message(sent), type(request))
    kinds = {name: kind for name, kind in request.get_fields_and_field_types().items() if kind in VALUES and name != "proof"}
    changed = deserialize_message(serialize_message(sent), type(request))
    name = data.draw(st.sampled_from(sorted(kinds)))
    setattr(changed, name, data.draw(VALUES[kinds[name]]))
    doors = Doorkeeper(node(), "control_halt")
    before, after = getattr(arrived, name), getattr(changed, name)
    same = before == after or (before != before and after != after)
    assert same or doors.caller(changed).role is Role.ANONYMOUS
    assert doors.caller(arrived).role is Role.OPERATOR


@pytest.mark.parametrize(
    ("namespace", "name", "domain"),
    [("/kalos", "control_halt", 0), ("/coco", "compile_reflex", 0), ("/coco", "control_halt", 7)],
)
def test_a_proof_is_for_one_robot_one_service_and_one_domain(namespace: str, name: str, domain: int) -> None:
    sent = signed(node(), "control_halt", ControlHalt.Request(command=2), Role.SAFETY)
    assert Doorkeeper(node(namespace, domain), name).caller(sent).role is Role.ANONYMOUS
    assert Doorkeeper(node(), "control_halt").caller(sent).role is Role.SAFETY


def test_where_no_key_can_be_had_a_request_goes_out_unsigned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A halt above all."""
    (tmp_path / "no_folder").write_text("")
    monkeypatch.setenv("GHOSTSHELL_KEYS", str(tmp_path / "no_folder"))
    said: list[str] = []
    halting = node()
    halting.get_logger = lambda: SimpleNamespace(warning=said.append)
    assert signed(halting, "control_halt", ControlHalt.Request(command=1), Role.OPERATOR).proof == ""
    assert "cannot be used" in said[0]
