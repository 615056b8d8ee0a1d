# SPDX-License-Identifier: Apache-2.0
"""What answers use is counted where it is told, estimated where it is not, and added up for each layer of a process."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planners.models.base import IMAGE_TOKENS, Image, Message, ModelRequest, Usage, prompt_tokens, tokens_in, used
from skill_kernel.codes import ModelCode
from skill_kernel.events import ModelEvent, ModelKind
from skill_kernel.processes.process import LayerUsage, added, skipped

REQUEST = ModelRequest("r" * 400, (Message("user", "q" * 40),))


def answer(
    layer: str,
    model: str = "",
    prompt: int = 0,
    cached: int = 0,
    completion: int = 0,
    cost: float = -1.0,
    took_s: float = 0.0,
    failed: bool = False,
) -> ModelEvent:
    return ModelEvent(
        kind=ModelKind.ANSWERED,
        layer=layer,
        model=model,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        cost_usd=cost,
        end_s=took_s,
        error_code=int(ModelCode.MODEL_TIMEOUT) if failed else 0,
    )


def test_a_provider_s_count_is_believed() -> None:
    told = Usage(1000, 20, 600, 0.01)
    assert used(told, REQUEST, "w" * 400, whole=True) is told


def test_a_cut_off_answer_counts_what_was_written_and_keeps_what_was_told() -> None:
    assert used(None, REQUEST, "w" * 40, whole=False) == Usage(110, 10)
    assert used(Usage(0, 0), REQUEST, "", whole=False) == Usage(110, 0)
    assert used(Usage(90, 1, 80, 0.5), REQUEST, "w" * 40, whole=False) == Usage(90, 10, 80, 0.5)
    assert used(Usage(90, 0), REQUEST, "w" * 40, whole=True) == Usage(90, 10)


def test_pictures_and_characters_of_other_scripts_count_more() -> None:
    seen = ModelRequest("", (Message("user", "", (Image(b"\xff\xd8\xff"),)),))
    assert prompt_tokens(seen) == IMAGE_TOKENS
    assert tokens_in("walk") == 1 and tokens_in("\u505c\u4e0b") == 2 and tokens_in("") == 0


def test_each_layer_has_its_own_sum() -> None:
    usage = added((), answer("s1", "m", 100, 60, 10, 0.5, 1.5))
    usage = added(usage, answer("s2", "n", 7, 0, 1, -1.0, 4.0, failed=True))
    usage = added(usage, answer("s1", "m", 50, 0, 5, -1.0, 0.5))
    usage = skipped(usage, "s2")
    assert usage == (
        LayerUsage("s1", "m", 2, 0, 0, 150, 60, 15, 0.5, 2.0, 1.5),
        LayerUsage("s2", "n", 1, 1, 1, 7, 0, 1, -1.0, 4.0, 4.0),
    )
    assert skipped((), "s3") == (LayerUsage("s3", skipped=1),)


ANSWERS = st.lists(
    st.builds(
        answer,
        st.sampled_from(["s1", "s2", "judge"]),
        st.just("m"),
        st.integers(0, 999),
        st.integers(0, 99),
        st.integers(0, 99),
        st.sampled_from([-1.0, 0.0, 0.25]),
        st.floats(0, 9),
        st.booleans(),
    ),
    max_size=20,
)


@given(ANSWERS, st.randoms())
def test_the_sums_lose_nothing_and_do_not_depend_on_who_answers_first(answers: list[ModelEvent], random: object) -> None:
    usage: tuple[LayerUsage, ...] = ()
    for answer in answers:
        usage = added(usage, answer)
    assert sum(u.calls for u in usage) == len(answers) and sum(u.failures for u in usage) == sum(a.failed for a in answers)
    assert sum(u.prompt_tokens for u in usage) == sum(a.prompt_tokens for a in answers)
    assert len({u.layer for u in usage}) == len(usage)
    by_layer: tuple[LayerUsage, ...] = ()
    for answer in sorted(answers, key=lambda a: a.layer):
        by_layer = added(by_layer, answer)
    assert sorted(by_layer, key=lambda u: u.layer) == sorted(usage, key=lambda u: u.layer)
