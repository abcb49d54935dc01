"""What stays in ZooKeeper of a job that is deleted is what the page on retention lists: no node more, none less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.jobs.job_context import JobContext
from tests.support.clusters.whole_jobs import SAVEPOINT


PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "retention.md"
_ROW = re.compile(r"\| `(?P<node>[^`]*<job>[^`]*)` \| (?P<most>[\d,]+)[^|]*\| (?P<why>[^|]*) \|")
_KEPT = "only with `--keep-savepoints`"


def listed(*, keep_savepoints: bool) -> dict[str, int]:
    """Return node -> the most bytes of its data, as the page has them."""
    section = PAGE.read_text(encoding="utf-8").partition("### Jobs that are deleted")[2].partition("\n### ")[0]
    rows = [row for row in _ROW.finditer(section) if keep_savepoints or not row["why"].startswith(_KEPT)]
    names = {"<job>": "copy", "<id>": SAVEPOINT}
    return {
        re.sub(r"<\w+>", lambda name: names[name[0]], row["node"]): int(row["most"].replace(",", "")) for row in rows
    }


def there(job: JobContext) -> dict[str, int]:
    """Return node -> bytes of its data, of every node below the cluster that is of the job."""
    base, found = job.paths.cluster.base, dict[str, int]()

    def look(path: str) -> None:
        for name in job.coordinator.children(path):
            node = job.coordinator.get(f"{path}/{name}")
            if job.job_id in node.path.removeprefix(base).split("/"):
                found[node.path.removeprefix(f"{base}/")] = len(node.data)
            look(node.path)

    look(base)
    return found


@pytest.mark.parametrize("keep_savepoints", [False, True])
def test_the_nodes_that_stay_of_a_deleted_job_are_those_of_the_page(
    spark_ha: Any, over: JobContext, keep_savepoints: bool
) -> None:
    assert spark_ha("delete", "job", "copy", "--yes", *(["--keep-savepoints"] if keep_savepoints else []))[0] == 0

    found, page = there(over), listed(keep_savepoints=keep_savepoints)

    assert set(found) == set(page)
    assert {node for node, size in found.items() if size > page[node]} == set()


def test_the_end_of_a_cluster_leaves_the_nodes_of_a_deletion_that_keeps_savepoints(
    spark_ha: Any, over: JobContext
) -> None:
    assert spark_ha("delete", "cluster", "--yes")[0] == 0

    assert set(there(over)) == set(listed(keep_savepoints=True))
