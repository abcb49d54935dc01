"""The log of a file sink where nothing can be renamed: killed before each step, and met by other writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_ha.checkpoints.areas.pins import sink_files
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, SEEDING, FileSinkLog, StoredSinkLog, log_of_files
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.spark.places import output_place
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    ConfigurationError,
    ObjectExistsError,
    RestoreRefusedError,
)
from airflow_provider_ha.storage.local_store import LocalStore


LAST = 12
ENTRIES = [*(str(batch) for batch in range(9)), "9.compact", "10", "11", "12"]


class Killed(BaseException):
    """The process died here."""


class MortalFiles(LocalStore):
    """Files whose process dies before one of the steps that change them.

    :param steps: How many of them it lives for.
    """

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(root, new=True)
        self._left = steps

    def create(self, key: str, data: bytes, *, writer: str = "") -> None:
        self._step()
        super().create(key, data, writer=writer)

    def delete(self, key: str) -> None:
        self._step()
        super().delete(key)

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """An output with a log."""
    log = tmp_path / "out" / LOG
    log.mkdir(parents=True)
    for name in ENTRIES:
        (log / name).write_text(f'v1\n{{"path":"{name}"}}')
    return tmp_path / "out"


def digest_of(output: Path, batch: int) -> str:
    digest = FileSinkLog(output).digest(batch)
    assert digest is not None
    return digest


def killed_at_each_step(act: Callable[[int], object], afterwards: Callable[[int], None]) -> int:
    """Have *act* killed before its first step, its second, and so on; return how many steps it has."""
    for step in range(50):
        try:
            act(step)
        except Killed:
            afterwards(step)
        else:
            return step
    raise AssertionError("it never ends")


def test_an_entry_that_is_set_aside_is_never_without_a_copy(output: Path) -> None:
    digest, entry = digest_of(output, LAST), (output / LOG / "12").read_bytes()

    def copies(_: int) -> None:
        left = [path for path in (output / LOG).iterdir() if path.read_bytes() == entry]
        assert left

    steps = killed_at_each_step(lambda step: StoredSinkLog(MortalFiles(output, step)).set_aside(LAST, digest), copies)

    assert steps == 2  # the copy, and the removal; an attempt that was killed is gone on with
    assert FileSinkLog(output).max_batch() == LAST - 1
    (aside,) = (output / LOG).glob(".12.*.aside")
    assert aside.read_bytes() == entry


def test_an_entry_with_other_content_stays(output: Path) -> None:
    with pytest.raises(RestoreRefusedError, match="not the entry that the plan removes"):
        StoredSinkLog(LocalStore(output, new=True)).set_aside(LAST, digest_of(output, 11))

    assert FileSinkLog(output).max_batch() == LAST


def test_a_compact_entry_stays_when_the_ones_before_it_are_gone(output: Path) -> None:
    for name in ("10", "11", "12"):
        (output / LOG / name).unlink()
    (output / LOG / "5").unlink()

    with pytest.raises(CheckpointCorruptError):
        StoredSinkLog(LocalStore(output, new=True)).set_aside(9, digest_of(output, 9))

    assert FileSinkLog(output).max_batch() == 9


def test_an_entry_that_was_written_since_it_was_read_stays(output: Path) -> None:
    """A removal that was sent to a storage late would take the batch of the next driver."""
    digest = digest_of(output, LAST)

    class Overtaken(LocalStore):
        def create(self, key: str, data: bytes, *, writer: str = "") -> None:
            super().create(key, data, writer=writer)
            self.write(f"{LOG}/12", b"v1\nanother batch 12")

    with pytest.raises(RestoreRefusedError):
        StoredSinkLog(Overtaken(output)).set_aside(LAST, digest)

    assert (output / LOG / "12").read_bytes() == b"v1\nanother batch 12"


@pytest.mark.parametrize("mode", ["continue", "fresh"])
def test_a_log_is_no_log_until_it_is_whole(output: Path, tmp_path: Path, mode: str) -> None:
    kept, new = LocalTree(output / LOG), tmp_path / "new"
    sink, needed = FileSink(str(new)), {"9.compact", "10", "11"}

    def afterwards(_: int) -> None:
        there = {path.name for path in (new / LOG).iterdir()} if new.exists() else set()
        assert sink.reached() == -1
        assert "9.compact" not in there or needed <= there  # Spark refuses a log without what its entries go on from

    steps = killed_at_each_step(lambda step: StoredSinkLog(MortalFiles(new, step)).seed(11, mode, kept), afterwards)

    assert steps == 4  # an attempt that was killed is gone on with
    assert sink.reached() == 11
    assert {path.name for path in (new / LOG).iterdir()} == needed
    assert [FileSinkLog(new).entry(batch) for batch in (9, 11)] == [
        (output / LOG / name).read_bytes() if mode == "continue" else b"v1" for name in ("9.compact", "11")
    ]


def test_a_log_that_another_restore_was_making_is_left_alone(output: Path, tmp_path: Path) -> None:
    kept, new = LocalTree(output / LOG), tmp_path / "new"
    with pytest.raises(Killed):
        StoredSinkLog(MortalFiles(new, 2)).seed(11, "continue", kept)

    with pytest.raises(ObjectExistsError, match="another log is being created there"):
        StoredSinkLog(LocalStore(new, new=True)).seed(10, "continue", kept)

    assert {path.name for path in (new / LOG).iterdir()} == {SEEDING, "11"}


def test_an_output_with_a_log_is_not_seeded(output: Path) -> None:
    with pytest.raises(ObjectExistsError, match="it already has a log"):
        StoredSinkLog(LocalStore(output, new=True)).seed(11, "continue", LocalTree(output / LOG))

    assert FileSinkLog(output).max_batch() == LAST


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("/data//out/../out/", "/data/out"),
        ("file:///data/out put", "/data/out put"),
        ("file:///data/out%20put", "/data/out%20put"),
        ("s3a://bucket/a//b/./c/", "s3://bucket/a/b/c"),
        ("s3n://bucket/a%20b", "s3://bucket/a%20b"),
        ("s3a://bucket/a?b", "s3://bucket/a?b"),
        ("s3a://bucket/a#b", "s3://bucket/a#b"),
        ("s3://bucket/", "s3://bucket"),
        ("hdfs://Names:8020//a/./b/", "hdfs://names:8020/a/b"),
    ],
)
def test_the_spellings_of_an_output_are_one(said: str, place: str) -> None:
    assert output_place(said) == place
    assert output_place(place) == place


@pytest.mark.parametrize(
    "said",
    [
        "s3a:///key",
        "hdfs:///path",
        "s3a://key:secret@bucket/out",
        "abfs://box@acc/out",
    ],
)
def test_an_output_that_is_no_place_is_refused_without_its_secrets(said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        output_place(said)

    assert "secret" not in str(refused.value)


def test_a_cut_takes_the_log_as_it_is_now(output: Path) -> None:
    """Who holds on to a log has seen it in an older state."""
    files = LocalStore(output, new=True)
    log = log_of_files(files)
    assert log.names()
    files.write(f"{LOG}/13", b"v1\nnew")

    taken = [entry for _, entry, _ in sink_files({"q": 13}, {"q": log})]

    assert taken == ["9.compact", "10", "11", "12", "13"]


@pytest.mark.parametrize(
    ("root", "uri", "inside"),
    [
        ("hdfs://names:8020/out", "hdfs://names:8020/out/part%201", "part 1"),
        ("hdfs://names:8020/out", "hdfs://other:8020/out/part", None),
        ("hdfs://names/out", "s3a://names/out/part", None),
        ("s3://bucket/out", "s3a://bucket/out/part", "part"),
    ],
)
def test_a_file_that_a_log_names_is_found_on_its_own_storage_alone(root: str, uri: str, inside: str | None) -> None:
    assert ObjectTree(SimpleNamespace(uri=root)).below(uri) == inside
