"""Which checkpoints and payloads are no longer needed."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_provider_ha.checkpoints.model import CheckpointKind, CheckpointPointer
from airflow_provider_ha.checkpoints.retained.retention import floors, replayable, superfluous


def pointers(*numbers: int) -> list[CheckpointPointer]:
    return [
        CheckpointPointer(
            number=number,
            epoch=1,
            run=1,
            reason=CheckpointKind.PERIODIC,
            payload="p",
            sha256="d",
            size=1,
            cut={"q": number},
            created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        )
        for number in numbers
    ]


@pytest.mark.parametrize(
    ("keep", "leased", "removed"), [(2, set(), [1, 2]), (2, {2}, [1]), (9, set(), []), (0, set(), [1, 2, 3])]
)
def test_the_oldest_go_except_what_is_read_and_the_newest(keep: int, leased: set[int], removed: list[int]) -> None:
    assert [pointer.number for pointer in superfluous(pointers(4, 3, 2, 1), keep, leased)] == removed


def test_a_payload_is_needed_while_an_older_cut_would_replay_it() -> None:
    floor = floors([{"q": 7}, {"q": 3, "late": 9}])

    assert floor == {"q": 3, "late": 9}
    assert replayable({"q": 4}, floor)
    assert not replayable({"q": 3, "late": 9, "gone": 50}, floor)
