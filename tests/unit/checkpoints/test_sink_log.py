"""The log of a file sink: looked at, taken back by one entry, continued elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, FileSinkLog
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import local_path
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    ConfigurationError,
    ObjectExistsError,
    RestoreRefusedError,
)


@pytest.fixture
def log(tmp_path: Path) -> FileSinkLog:
    """A log up to batch 22, with what Spark leaves beside it."""
    place = tmp_path / "out" / LOG
    place.mkdir(parents=True)
    for name in ("9.compact", *map(str, range(10, 19)), "19.compact", "20", "21", "22"):
        (place / name).write_text(f'v1\n{{"path":"{name}"}}')
        (place / f".{name}.crc").write_bytes(b"crc")
    (place / ".23.0b1d.tmp").touch()
    return FileSinkLog(tmp_path / "out")


def digest_of(log: FileSinkLog, batch: int) -> str:
    digest = log.digest(batch)
    assert digest is not None
    return digest


def names(path: Path) -> list[str]:
    return sorted(item.name for item in (path / LOG).iterdir() if not item.name.startswith("."))


def test_temporary_files_are_no_entries(log: FileSinkLog) -> None:
    assert log.max_batch() == 22
    assert FileSinkLog(log.path / "nowhere").max_batch() == -1


def test_the_closure_begins_with_the_last_compact_entry(log: FileSinkLog) -> None:
    assert log.closure_names(22) == ["19.compact", "20", "21", "22"]
    assert log.closure_names(11) == ["9.compact", "10", "11"]


def test_a_hole_in_the_closure_is_damage(log: FileSinkLog) -> None:
    (log.path / LOG / "21").unlink()

    with pytest.raises(CheckpointCorruptError, match="_spark_metadata/21"):
        log.closure_names(22)


def test_exactly_the_named_last_entry_is_set_aside_once(log: FileSinkLog) -> None:
    digest = digest_of(log, 22)

    assert log.set_aside(22, digest)
    assert not log.set_aside(22, digest)
    assert log.max_batch() == 21
    assert any(item.name.startswith(".22.") for item in (log.path / LOG).iterdir())
    assert not (log.path / LOG / ".22.crc").exists()


def test_an_entry_with_other_content_stays(log: FileSinkLog) -> None:
    with pytest.raises(RestoreRefusedError):
        log.set_aside(22, "0" * 64)

    assert log.max_batch() == 22


def test_an_entry_that_others_follow_stays(log: FileSinkLog) -> None:
    with pytest.raises(RestoreRefusedError):
        log.set_aside(21, digest_of(log, 21))

    assert log.max_batch() == 22


def test_a_compact_entry_stays_when_the_one_before_it_is_gone(log: FileSinkLog) -> None:
    for name in ("20", "21", "22", "9.compact"):
        (log.path / LOG / name).unlink()

    with pytest.raises(CheckpointCorruptError):
        log.set_aside(19, digest_of(log, 19))

    assert log.max_batch() == 19


def test_continue_copies_the_entries_up_to_the_cut_and_no_further(log: FileSinkLog, tmp_path: Path) -> None:
    FileSinkLog(tmp_path / "new").seed(21, "continue", LocalTree(log.path / LOG))

    assert names(tmp_path / "new") == ["19.compact", "20", "21", "9.compact"]
    assert FileSinkLog(tmp_path / "new").entry(21) == log.entry(21)


def test_fresh_makes_empty_entries_of_the_same_names(log: FileSinkLog, tmp_path: Path) -> None:
    FileSinkLog(tmp_path / "new").seed(21, "fresh", LocalTree(log.path / LOG))

    new = FileSinkLog(tmp_path / "new")
    assert names(new.path) == ["19.compact", "20", "21", "9.compact"]
    assert {new.entry(batch) for batch in (19, 20, 21)} == {b"v1"}


def test_an_output_with_a_log_is_not_seeded(log: FileSinkLog, tmp_path: Path) -> None:
    with pytest.raises(ObjectExistsError):
        FileSinkLog(log.path).seed(21, "continue", LocalTree(log.path / LOG))


def test_a_seed_that_fails_leaves_nothing(log: FileSinkLog, tmp_path: Path) -> None:
    (log.path / LOG / "20").unlink()

    with pytest.raises(CheckpointCorruptError):
        FileSinkLog(tmp_path / "new").seed(21, "continue", LocalTree(log.path / LOG))

    assert not (tmp_path / "new" / LOG).exists()


def test_a_sink_path_is_a_path_or_a_file_uri() -> None:
    assert local_path("file:///data/out%20put") == Path("/data/out%20put")
    assert local_path("/data/out") == Path("/data/out")
    with pytest.raises(ConfigurationError, match="s3a://bucket"):
        local_path("s3a://bucket/out")
