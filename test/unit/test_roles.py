# SPDX-License-Identifier: Apache-2.0
"""Decide who may do what: the table, proofs that cannot be forged, repeated or moved, halts that only their role clears."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skill_kernel.roles import ACT_OF, ANYBODY, MAY, VALID_S, Act, Caller, HaltLatch, Keys, ProofReader, Role, key_role

SAFETY_PAGE = Path(__file__).resolve().parents[2] / "docs" / "safety.md"
WITH_KEY = [role for role in Role if role is not Role.ANONYMOUS]


@dataclass
class Clocks:
    wall_s: float = 1_700_000_000.0
    steady_s: float = 1000.0

    def passes(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


@dataclass
class Robot:
    """A service that reads proofs, and whoever asks it."""

    keys: Keys
    clocks: Clocks = field(default_factory=Clocks)
    target: str = "0 /coco/compile_reflex"

    def __post_init__(self) -> None:
        self.restarts()
        self.clocks.passes(3600.0)

    def restarts(self) -> None:
        clocks = self.clocks
        self.reader = ProofReader(self.keys, self.target, wall=lambda: clocks.wall_s, steady=lambda: clocks.steady_s)

    def proof(self, role: Role = Role.APPROVER, content: bytes = b"approve step_back", target: str = "") -> str:
        return self.keys.proof(role, target or self.target, content, now_s=self.clocks.wall_s)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def robot(keys: Keys) -> Robot:
    return Robot(keys)


# -- the table ---------------------------------------------------------------------------------------------------------


def table() -> Iterator[str]:
    """Return the lines of the table in docs/safety.md."""
    yield f"| | {' | '.join(role.value for role in Role)} |"
    for act in Act:
        yield f"| {act.value} | {' | '.join('yes' if act in MAY[role] else '–' for role in Role)} |"


def test_the_documented_table_is_the_one_that_the_nodes_ask() -> None:
    lines = SAFETY_PAGE.read_text(encoding="utf-8").splitlines()
    shown = [line for line in lines if line.startswith("| |") or any(line.startswith(f"| {act.value} |") for act in Act)]
    assert shown == list(table())


def test_everybody_may_halt_and_only_safety_clears_what_safety_halted() -> None:
    assert all(Act.HALT in acts for acts in MAY.values()) and set(MAY) == set(Role)
    assert [role for role in Role if Act.CLEAR_SAFETY in MAY[role]] == [Role.SAFETY]


def test_who_proves_nothing_moves_the_robot_at_most_by_words() -> None:
    assert MAY[Role.ANONYMOUS] == {Act.LOOK, Act.HALT, Act.INSTRUCT}
    assert {act for act in Act if not ANYBODY.refusal(act)} == MAY[Role.ANONYMOUS]


def test_a_refusal_says_who_may_and_where_that_is_explained() -> None:
    refusal = ANYBODY.refusal(Act.APPROVE)
    assert "anonymous may not approve" in refusal and "approver may" in refusal and "docs/safety.md" in refusal
    assert key_role(ACT_OF["APPROVE"]) is Role.APPROVER and key_role(Act.CLEAR) is Role.OPERATOR


def test_a_name_that_nothing_proves_is_marked() -> None:
    assert (ANYBODY.named("Ada"), ANYBODY.named("")) == ("Ada (unverified)", "")
    assert Caller(Role.VIEWER, "").named("Ada") == "Ada"


# -- proofs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", WITH_KEY)
def test_a_proof_gives_the_role_of_its_key_once(robot: Robot, role: Role) -> None:
    proof = robot.proof(role)
    assert robot.reader.caller(proof, b"approve step_back") == Caller(role, "")
    again = robot.reader.caller(proof, b"approve step_back")
    assert again.role is Role.ANONYMOUS and "used before" in again.why


@given(
    text=st.one_of(
        st.text(max_size=400), st.builds(" ".join, st.lists(st.text("safety apro.0-9é", max_size=70), min_size=4, max_size=4))
    )
)
def test_no_text_is_a_proof_without_the_key(keys: Keys, text: str) -> None:
    assert Robot(keys).reader.caller(text, b"approve step_back").role is Role.ANONYMOUS


@given(at=st.integers(0, 10_000), other=st.characters(exclude_categories=("Cs",)))
def test_a_proof_with_another_character_proves_nothing(keys: Keys, at: int, other: str) -> None:
    robot = Robot(keys)
    proof = robot.proof()
    at %= len(proof)
    changed = proof[:at] + other + proof[at + 1 :]
    assert changed == proof or robot.reader.caller(changed, b"approve step_back").role is Role.ANONYMOUS


def test_a_proof_is_for_one_request_to_one_service_by_one_role(robot: Robot) -> None:
    proof = robot.proof(Role.OPERATOR)
    for forged, content in (
        (proof, b"approve kick"),
        (proof.replace("operator", "safety"), b"approve step_back"),
        (robot.proof(target="0 /kalos/compile_reflex"), b"approve step_back"),
        (robot.proof(target="7 /coco/compile_reflex"), b"approve step_back"),
    ):
        caller = robot.reader.caller(forged, content)
        assert caller.role is Role.ANONYMOUS and "fits neither" in caller.why


def test_a_proof_ages(robot: Robot) -> None:
    proof = robot.proof()
    robot.clocks.passes(VALID_S + 1.0)
    assert "s old" in robot.reader.caller(proof, b"approve step_back").why
    robot.clocks.wall_s -= 3600.0
    assert "s old" in robot.reader.caller(proof, b"approve step_back").why, "nor does it come from the future"


def test_a_restarted_node_takes_no_proof_that_the_one_before_may_have_taken(robot: Robot) -> None:
    proof = robot.proof()
    assert robot.reader.caller(proof, b"approve step_back").role is Role.APPROVER
    robot.clocks.passes(5.0)
    robot.restarts()
    assert robot.reader.caller(proof, b"approve step_back").role is Role.ANONYMOUS


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_after_a_jump_of_the_clock_a_new_proof_counts(robot: Robot, jump_s: float) -> None:
    robot.clocks.wall_s += jump_s
    assert robot.reader.caller(robot.proof(), b"approve step_back").role is Role.APPROVER


def test_used_proofs_are_remembered_across_a_jump_of_the_clock(robot: Robot) -> None:
    proof = robot.proof()
    robot.reader.caller(proof, b"approve step_back")
    robot.clocks.passes(3600.0)
    robot.clocks.wall_s -= 3600.0
    assert "used before" in robot.reader.caller(proof, b"approve step_back").why


# -- keys --------------------------------------------------------------------------------------------------------------


def test_keys_are_for_their_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Keys(tmp_path / "data" / "keys").seal(Role.SAFETY, b"")
    finally:
        os.umask(before)
    files = list((tmp_path / "data" / "keys").iterdir())
    assert [file.name for file in files] == ["safety.key"] and files[0].stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data" / "keys").stat().st_mode & 0o777 == 0o700


def test_two_programs_that_make_a_key_at_once_have_the_same(tmp_path: Path) -> None:
    seals: list[str] = []
    start = threading.Barrier(8)

    def seal() -> None:
        start.wait(5.0)
        seals.append(Keys(tmp_path / "keys").seal(Role.OPERATOR, b"x"))

    threads = [threading.Thread(target=seal) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5.0)
    assert len(seals) == 8 and len(set(seals)) == 1 and len(list((tmp_path / "keys").iterdir())) == 1


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda key: key.chmod(0o644), "chmod 600"),
        (lambda key: key.write_text("short"), "holds no key"),
        (lambda key: (key.unlink(), key.mkdir()), "cannot be used"),
    ],
)
def test_a_key_that_proves_nothing_is_not_used(tmp_path: Path, spoil, why: str) -> None:
    keys = Keys(tmp_path)
    robot = Robot(keys)
    proof = robot.proof()
    spoil(tmp_path / "approver.key")
    caller = robot.reader.caller(proof, b"approve step_back")
    assert caller.role is Role.ANONYMOUS and why in caller.why


def test_another_machines_keys_prove_nothing(robot: Robot, tmp_path: Path) -> None:
    foreign = Keys(tmp_path).proof(Role.SAFETY, robot.target, b"", now_s=robot.clocks.wall_s)
    assert "keys of who started the robot; copy those" in robot.reader.caller(foreign, b"").why


# -- halts -------------------------------------------------------------------------------------------------------------


def by(role: Role) -> Caller:
    return ANYBODY if role is Role.ANONYMOUS else Caller(role, "")


@pytest.mark.parametrize("halted_by", list(Role))
@pytest.mark.parametrize("clears", list(Role))
def test_who_may_clear_whose_halt(halted_by: Role, clears: Role) -> None:
    latch = HaltLatch()
    latch.halt(halted_by)
    may = {Role.SAFETY} if halted_by is Role.SAFETY else {Role.OPERATOR, Role.SAFETY}
    assert (latch.refusal(by(clears)) == "") == (clears in may)


def test_a_halt_by_safety_outlives_any_halt_that_comes_on_top() -> None:
    latch = HaltLatch()
    for role in (Role.SAFETY, Role.OPERATOR, Role.ANONYMOUS):
        latch.halt(role)
    assert "safety may" in latch.refusal(by(Role.OPERATOR)) and not latch.refusal(by(Role.SAFETY))
    latch.cleared()
    latch.halt()
    assert not latch.refusal(by(Role.OPERATOR)), "the next halt is nobody's in particular"


def test_clearing_one_halt_leaves_a_newer_one() -> None:
    latch = HaltLatch()
    latch.halt()
    seen = latch.number
    assert not latch.refusal(by(Role.OPERATOR), seen)
    latch.cleared()
    latch.halt()
    assert "newer halt" in latch.refusal(by(Role.OPERATOR), seen) and not latch.refusal(by(Role.OPERATOR), latch.number)
