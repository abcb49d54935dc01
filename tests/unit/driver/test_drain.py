"""What a drain gives to a ``foreachBatch`` function, and what is left of it until the run has its result."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver.drain_run import WithheldWhenEmpty
from airflow_provider_ha.driver.ending import Ending


class Rows:
    """As much of a batch as is asked for."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.kept = False

    def persist(self) -> Rows:
        self.kept = True
        return self

    def unpersist(self) -> None:
        self.kept = False

    def count(self) -> int:
        return self._rows


@pytest.mark.parametrize(("rows", "called"), [(0, False), (3, True)])
def test_a_function_is_called_only_when_there_are_rows(rows: int, called: bool) -> None:
    given: list[tuple[Any, int]] = []
    batch = Rows(rows)
    withheld = WithheldWhenEmpty(lambda frame, batch_id: given.append((frame, batch_id)))

    withheld(batch, 7)

    assert withheld.called is called
    assert given == ([(batch, 7)] if called else [])
    assert not batch.kept


def test_fork_of_a_drain_is_still_there_when_the_result_is_written(tmp_path: Path) -> None:
    """A driver that dies in between leaves a batch in the sinks that only the fork tells from an ordinary one."""
    parts = SimpleNamespace(calls=None, patches=SimpleNamespace(), script=SimpleNamespace(run=lambda: None))
    ending = Ending(spec=None, led=None, way_out=None, parts=parts)  # type: ignore[arg-type]

    ending.drain(tmp_path)

    assert tmp_path.is_dir()
