"""Restore of a savepoint, without a server: whether its batch can be restored, and in which order files appear."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import stages
from airflow_provider_ha.checkpoints.verify.restorable import restorable_at
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.unit.checkpoints.test_verification_sparse import write_log


@pytest.fixture
def checkpoint() -> Iterator[Path]:
    """A checkpoint of two batches, in a directory that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield write_log(Path(name) / "c", offsets=[0, 1], commits=[0, 1], version=2)


def test_batch_that_is_there_can_be_restored(checkpoint: Path) -> None:
    assert restorable_at(verify(LocalTree(checkpoint), depth="quick"), 1).answer is True


def test_batch_with_a_damaged_entry_cannot_be_restored(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").write_text("")

    assert restorable_at(verify(LocalTree(checkpoint), depth="quick"), 1).answer is False


def test_batch_that_may_not_be_read_is_unknown(checkpoint: Path) -> None:
    """Tests may be run by root, who may read everything: another user asks."""
    (checkpoint / "offsets" / "1").chmod(0)
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        answer = restorable_at(verify(LocalTree(checkpoint), depth="quick"), 1).answer
    finally:
        os.seteuid(user)

    assert answer is None


def test_state_and_sources_appear_before_any_log() -> None:
    """Between two stages a Spark that is started too early must find nothing that it could go on with."""
    files = ["state/0/0/1.delta", "offsets/0", "offsets/1", "metadata", "commits/1", "sources/0/0"]
    savepoint: Any = SimpleNamespace(queries={"q": SimpleNamespace(files=files)})

    ordered = list(stages(savepoint))

    assert ordered == [
        ["q/state/0/0/1.delta", "q/sources/0/0"],
        ["q/commits/1"],
        ["q/metadata"],
        ["q/offsets/1"],
        ["q/offsets/0"],
    ]
