"""Under a query that goes on, what is missed is looked for again, and what was purged was never there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS
from airflow_provider_ha.checkpoints.spark.files import read_text
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.subject import read_log
from airflow_provider_ha.checkpoints.verify.verification import settled
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from tests.unit.checkpoints.test_verification_sparse import write_log


def looks(*answers: bool | None) -> tuple[Callable[[], VerificationReport], list[VerificationReport]]:
    """Return a look that gives one answer after the other, and the reports that it handed out."""
    given: list[VerificationReport] = []
    coming = iter(answers)

    def look() -> VerificationReport:
        given.append(VerificationReport(startable=next(coming), restorable=[], findings=()))
        return given[-1]

    return look, given


@pytest.mark.parametrize("answer", [True, None])
def test_a_checkpoint_that_is_not_condemned_is_looked_at_once(*, answer: bool | None) -> None:
    look, given = looks(answer, False)

    assert settled(look, lambda report: True).startable is answer
    assert len(given) == 1


def test_damage_under_a_query_that_stands_still_is_believed_at_once() -> None:
    look, given = looks(False, True)

    assert settled(look, lambda report: False).startable is False
    assert len(given) == 1


def test_damage_under_a_query_that_went_on_is_looked_at_again() -> None:
    look, _ = looks(False, True)

    assert settled(look, lambda report: True).startable is True


def test_damage_that_stays_is_believed_although_the_query_goes_on() -> None:
    look, given = looks(False, False, False, True)

    assert settled(look, lambda report: True).startable is False
    assert len(given) == 3


def purge_then(read: Callable[[Tree, int], object]) -> Callable[[Tree, int], object]:
    """Purge batch 0 after its name was read and before its entry is."""

    def reader(directory: Tree, batch: int) -> object:
        assert directory.local_path is not None
        (directory.local_path / OFFSETS / "0").unlink(missing_ok=True)
        return read(directory, batch)

    return reader


@pytest.mark.parametrize(
    "read", [read_offsets, lambda directory, batch: read_text(directory, f"{OFFSETS}/{batch}")], ids=["entry", "file"]
)
def test_an_entry_that_is_purged_while_it_is_read_was_never_there(
    read: Callable[[Tree, int], object], tmp_path: Path
) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1, 2], commits=[0, 1, 2])
    entries, log = read_log(LocalTree(directory), OFFSETS, Code.OFFSETS_MISSING, Code.OFFSETS_CORRUPT, purge_then(read))

    assert list(entries) == [1, 2]
    assert (log.present, log.bad) == (frozenset({1, 2}), {})
