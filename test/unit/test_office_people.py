# SPDX-License-Identifier: Apache-2.0
"""People of the office: what a request in words asks for, and what a question about a task is answered."""

from __future__ import annotations

import pytest

from bench.office.layout import office
from bench.office.people import NO_MORE, UNCLEAR, deed_in, meant, reply
from bench.office.tasks import Step, Task
from bench.office.world import Absence, Deed, Office, Where
from planners.people import Kind, read_reply

LAYOUT = office(0)
PAPER = next(name for name, where in LAYOUT.at_first.items() if where == Where("file"))
OWNER, WORDS = LAYOUT.items[PAPER].owner, LAYOUT.items[PAPER].kind.replace("_", " ")


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        (f"Please print {OWNER}'s {WORDS} ({PAPER}) at printer_2.", Deed("use", PAPER, "printer_2", "print")),
        (f"Could you print {OWNER}'s {WORDS}, please?", Deed("use", PAPER, "printer_1", "print")),
        (f"Would you sign {PAPER}?", Deed("sign", PAPER)),
        (f"Please bring {PAPER} to Ma.", Deed("bring", PAPER, to="Ma")),
        (f"Please put {PAPER} into the meeting room.", Deed("bring", PAPER, to="meeting_room")),
        (f"Please put {PAPER} in the smart locker.", Deed("use", PAPER, "smart_locker", "deposit")),
        (f"Please lend us {PAPER}.", Deed("lend", PAPER)),
        (f"Please be ready to receive {PAPER}.", Deed("wait", PAPER)),
        (f"Please have {PAPER} bound.", Deed("use", PAPER, "binding_machine", "bind")),
        ("Please print it.", None),
        (f"What about {PAPER}?", None),
    ],
)
def test_request_in_words_is_a_deed(text: str, deed: Deed | None) -> None:
    assert deed_in(text, LAYOUT, "Li") == deed


@pytest.mark.parametrize(
    ("kind", "said"),
    [("busy", Kind.OTHER), ("later", Kind.LATER), ("instead", Kind.INSTEAD), ("away", None), ("", Kind.ACCEPT)],
)
def test_absent_people_say_no_later_somebody_else_or_nothing(kind: str, said: Kind | None) -> None:
    absences = {"Li": Absence(kind, instead="Ma")} if kind else {}  # type: ignore[arg-type]
    word = reply(Office(LAYOUT, absences), "Li", f"Please print {PAPER}.")
    assert (word.deed is not None) == (kind == "")
    assert (read_reply(word.text, ["Ma", "Wu"]).kind if word.text else None) == said


def test_request_that_cannot_be_done_is_declined_with_the_reason() -> None:
    assert "must be printed first" in reply(Office(LAYOUT), "Li", f"Please copy {PAPER}.").text
    assert reply(Office(LAYOUT), "Li", "Please help.").text == UNCLEAR


@pytest.mark.parametrize(
    ("masked", "question", "choices", "answer"),
    [
        ("destination", "To whom should it be brought?", (), "Li should get it."),
        ("destination", "Whose is it, and what?", (), NO_MORE),
        ("destination", "Who is meant?", ("Li", "Ma"), "Li"),
        ("", "Who should get it?", (), NO_MORE),
    ],
)
def test_question_about_what_was_left_out_is_answered(
    masked: str, question: str, choices: tuple[str, ...], answer: str
) -> None:
    steps = (Step("deliver", PAPER, ("Li",)),)
    task = Task("ambiguous", "fetch", 0, "Wu", "", {}, steps, masked, "Who?", "Li should get it.")
    assert meant(task, question, choices) == answer
