"""What Spark gets of a checkpoint to prove it: a copy that shares nothing with what it was made of."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.proof.closure_copy import copy_closure
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from tests.support.checkpoints.portable_helpers import QUERY, all_names, checkpoint


def test_whoever_writes_to_the_copy_does_not_write_to_the_checkpoint(tmp_path: Path) -> None:
    live = checkpoint(tmp_path / QUERY)
    names = all_names(live)
    before = {name: (live / name).read_bytes() for name in names if (live / name).is_file()}

    copy_closure(LocalTree(live), 2, tmp_path / "copy")
    for path in (tmp_path / "copy").rglob("*"):
        if path.is_file():
            path.write_text("written in place")

    assert (tmp_path / "copy" / "offsets" / "2").read_text() == "written in place"
    assert all_names(live) == names
    assert {name: (live / name).read_bytes() for name in before} == before
