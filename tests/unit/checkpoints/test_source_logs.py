"""Compact entries of a file source's log: written where Spark looks for them, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.source_logs import compact_interval, compact_sources
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.errors import CheckpointCorruptError


@pytest.mark.parametrize(
    ("compact", "configured", "interval"),
    [([], 10, 10), ([9], 10, 10), ([19], 10, 20), ([29], 10, 10), ([3], 10, 4), ([19, 29], 4, 10), ([10], 4, 11)],
)
def test_the_interval_is_the_one_that_spark_derives(compact: list[int], configured: int, interval: int) -> None:
    assert compact_interval(compact, configured) == interval


def checkpoint(place: Path, names: list[str], *, source: str = "file") -> Path:
    """Return the log of a query's source; each plain entry has one line, each compact one all lines before it."""
    last = int(names[-1].removesuffix(".compact"))
    offset = json.dumps({"logOffset": last} if source == "file" else {"topic": {"0": 7}})
    for log in ("offsets", "sources/0"):
        (place / log).mkdir(parents=True)
    (place / "offsets" / "3").write_text(f"v1\n{{}}\n{offset}")
    for name in names:
        number = int(name.removesuffix(".compact"))
        lines = lines_of(0 if name.endswith(".compact") else number, number)
        (place / "sources/0" / name).write_text("\n".join(["v1", *lines]))
    return place / "sources/0"


def lines_of(first: int, last: int) -> list[str]:
    return [json.dumps({"path": f"/{number}", "batchId": number}) for number in range(first, last + 1)]


def plain(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("names", "configured", "written"),
    [
        pytest.param(["39.compact", *plain(40, 54)], 10, [49], id="of a shorter interval"),
        pytest.param(["39.compact", *plain(40, 54)], 30, [], id="of a longer interval"),
        pytest.param(["19.compact", *plain(20, 38), "39.compact", *plain(40, 54)], 10, [], id="as Spark left it"),
        pytest.param(plain(0, 6), 4, [3], id="rebuilt from the beginning"),
        pytest.param(plain(0, 8), 4, [3, 7], id="rebuilt over two intervals"),
        pytest.param(["3.compact", "7.compact", *plain(8, 12)], 2, [11], id="rebuilt after two compactions"),
        pytest.param(plain(0, 8), 10, [], id="too short"),
        pytest.param(plain(0, 8), 0, [], id="of an interval that Spark refuses"),
    ],
)
def test_entries_that_spark_looks_for_are_written(
    names: list[str], configured: int, written: list[int], tmp_path: Path
) -> None:
    log = checkpoint(tmp_path, names)

    compact_sources(LocalTree(tmp_path), configured)
    compact_sources(LocalTree(tmp_path), configured)

    assert {path.name for path in log.iterdir()} - set(names) == {f"{number}.compact" for number in written}
    for number in written:
        assert (log / f"{number}.compact").read_text().split("\n") == ["v1", *lines_of(0, number)]


def test_a_log_with_the_first_offset_of_another_source_stays(tmp_path: Path) -> None:
    log = checkpoint(tmp_path, ["0"], source="kafka")

    compact_sources(LocalTree(tmp_path), 1)

    assert [path.name for path in log.iterdir()] == ["0"]


def test_a_log_with_a_hole_is_not_compacted(tmp_path: Path) -> None:
    log = checkpoint(tmp_path, ["39.compact", *plain(40, 44), *plain(46, 54)])

    with pytest.raises(CheckpointCorruptError, match="sources/0/45"):
        compact_sources(LocalTree(tmp_path), 10)

    assert not (log / "49.compact").exists()
