"""A working directory on storage without links and renames, made by hand."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint, write_batch


JOB = JobKeys("flights")
FIRST, SECOND, THIRD = (JOB.working_directory(epoch, "x") for epoch in (1, 2, 3))


class LayeredFiles:
    """An area on a directory, and what a driver does in it.

    :param root: Of the area.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = LocalStore(root, new=True)
        self.area = LayeredWorkArea(self.files)

    def query(self, key: str, query: str = QUERY) -> Path:
        """Return the place of a query's own files."""
        return self.root / key / query

    def run(self, key: str, *, batches: int = 3, query: str = QUERY) -> Path:
        """Make a working directory in which a stateless query has committed some batches."""
        if not self.area.contains(key):
            self.area.create(key)
        return checkpoint(self.query(key, query), range(batches))

    def plan(self, key: str, batch: int, query: str = QUERY) -> None:
        """Plan and commit a batch as the driver of that directory does, then take the commit back."""
        write_batch(self.query(key, query), batch)
        (self.query(key, query) / "commits" / str(batch)).unlink()

    def commit(self, key: str, batch: int, query: str = QUERY) -> None:
        """Plan and commit a batch."""
        write_batch(self.query(key, query), batch)

    def take_over(self, lost: str, target: str, query: str = QUERY) -> None:
        """Fence a working directory and go on in another one."""
        self.area.fence(lost)
        self.area.create(target)
        self.area.fork(f"{lost}/{query}", f"{target}/{query}", keep_planned=True)
