# SPDX-License-Identifier: Apache-2.0
"""Twenty tasks at once with 50 robots and 200 people."""

from __future__ import annotations

import pytest

from bench.office.scale import rounds


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_many_tasks_at_once_take_no_second_beyond_models_and_no_more_memory() -> None:
    found = list(rounds(4, 20))
    assert all(one.ended == one.tasks == 20 for one in found)
    assert sum(one.done for one in found) >= 40
    assert sorted(one.longest_s for one in found)[1] <= 1.0
    assert found[-1].memory_mib - found[1].memory_mib < 5.0
