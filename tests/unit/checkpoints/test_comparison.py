"""What differs between two checkpoints: each kind of difference by itself, on real checkpoints where Spark makes it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.comparison.compare import Difference, QueryComparison, compare, compare_query
from airflow_provider_ha.checkpoints.comparison.schema import accepts
from airflow_provider_ha.checkpoints.comparison.side import Side, read_side
from airflow_provider_ha.checkpoints.comparison.sources import Offsets
from airflow_provider_ha.checkpoints.comparison.state import FileChanges, OperatorChange
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile
from airflow_provider_ha.checkpoints.savepoints.directory import DirectoryLayout
from airflow_provider_ha.checkpoints.savepoints.layout import SavepointSource
from airflow_provider_ha.checkpoints.savepoints.take import take
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint, write_batch
from tests.support.spark import corpus


SAME, DIFFERENT, UNREAD = 0, 1, 2
LAST = corpus.BATCHES - 1


def real(shape: str) -> Path:
    """Return a checkpoint of the corpus; nothing is changed there."""
    return corpus.corpus() / shape / "checkpoint"


def edit(path: Path, change: Callable[[str], str]) -> None:
    """Change a text, and remove the checksum that no longer fits it."""
    path.write_text(change(path.read_text()))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def against_itself(shape: str, place: Path, change: Callable[[Path], None]) -> QueryComparison:
    """Compare a real checkpoint with a copy of it that was changed."""
    copy = corpus.checkpoint_copy(shape, place / "copy")
    change(copy)
    return compare_query(read_side(LocalTree(real(shape))), read_side(LocalTree(copy)))


def values(found: QueryComparison) -> dict[str, tuple[Any, Any]]:
    return {item.what: (item.a, item.b) for item in found.values}


@pytest.mark.parametrize("shape", corpus.SHAPES)
def test_a_copy_is_the_same_wherever_it_lies(shape: str, tmp_path: Path) -> None:
    found = against_itself(shape, tmp_path, lambda copy: None)

    assert found.same
    assert found.state.shared == len(found.a.state)
    assert found.state.shared_bytes == sum(found.a.state.values())


@pytest.mark.parametrize("shape", ["hdfs", "rocksdb1", "rocksdb2", "rocksdb2-changelog", "stateless"])
def test_the_next_batch_differs_by_what_it_read_and_wrote(shape: str) -> None:
    a, b = read_side(LocalTree(real(shape)), LAST - 1), read_side(LocalTree(real(shape)), LAST)

    found = compare_query(a, b)

    assert values(found).keys() == {"batch", "batch time (ms)"}
    (source,) = found.sources
    assert (source.a and source.a.end, source.b and source.b.end) == (
        f'{{"logOffset":{LAST - 1}}}',
        f'{{"logOffset":{LAST}}}',
    )
    assert source.b is not None
    assert source.b.start == source.a.end  # type: ignore[union-attr]  # seen above
    assert [Path(file).name for file in source.only_in_b] == [f"{LAST:03d}.json"]
    assert source.only_in_a == ()
    assert (found.conf, found.operators, found.refused) == ((), (), False)
    assert found.state.only_in_b == {name: size for name, size in b.state.items() if name not in a.state}
    assert found.state.only_in_a == {name: size for name, size in a.state.items() if name not in b.state}
    assert len(found.other_state_ids) == (2 if shape.startswith("rocksdb2") else 0)


def test_a_file_that_another_attempt_wrote_under_the_same_name_is_found_by_its_bytes(tmp_path: Path) -> None:
    """Format 1: name and size tell nothing, as after a restore that left files of another timeline."""

    def other_bytes(copy: Path) -> None:
        path = copy / next(name for name in read_side(LocalTree(copy)).state if name.endswith((".delta", ".snapshot")))
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    found = against_itself("hdfs", tmp_path, other_bytes)

    assert len(found.state.changed) == 1
    assert not found.same


def test_the_digests_of_two_manifests_spare_reading(tmp_path: Path) -> None:
    side = read_side(LocalTree(corpus.checkpoint_copy("hdfs", tmp_path / "a")))
    names = list(side.state)
    digests = {name: ManifestFile(size=side.state[name], sha256="1" * 64) for name in names}
    other = replace(side, digests=digests | {names[0]: ManifestFile(size=side.state[names[0]], sha256="2" * 64)})
    shutil.rmtree(tmp_path / "a" / "state")  # so that it cannot be read

    found = compare_query(replace(side, digests=digests), other)

    assert list(found.state.changed) == names[:1]


def in_two_places(
    place: Path, *, digest_a: Callable[[int], ManifestFile], digest_b: Callable[[int], ManifestFile]
) -> tuple[Side, Side, str]:
    """Return one checkpoint in two places, each with a manifest, and the name of a file of its state."""
    a, b = (read_side(LocalTree(corpus.checkpoint_copy("hdfs", place / name))) for name in "ab")
    described = (
        replace(side, digests={name: digest(size) for name, size in side.state.items()})
        for side, digest in ((a, digest_a), (b, digest_b))
    )
    return *described, next(name for name in a.state if name.endswith(".delta"))  # type: ignore[return-value]  # of two


def undigested(size: int) -> ManifestFile:
    return ManifestFile(size=size)


def by_sha256(size: int) -> ManifestFile:
    return ManifestFile(size=size, sha256="1" * 64)


def by_crc32c(size: int) -> ManifestFile:
    return ManifestFile(size=size, digest="1" * 8, algorithm=Algorithm.CRC32C)


@pytest.mark.parametrize(("digest_a", "digest_b"), [(undigested, undigested), (by_sha256, by_crc32c)])
def test_where_two_manifests_cannot_be_compared_the_bytes_are(
    tmp_path: Path, digest_a: Callable[[int], ManifestFile], digest_b: Callable[[int], ManifestFile]
) -> None:
    """Without digests they say the same of any two files of one size, and of two algorithms they never do."""
    a, b, name = in_two_places(tmp_path, digest_a=digest_a, digest_b=digest_b)
    assert compare_query(a, b).same

    (tmp_path / "b" / name).write_bytes((tmp_path / "a" / name).read_bytes()[::-1])

    assert list(compare_query(a, b).state.changed) == [name]


def test_state_that_is_gone_by_the_time_it_is_compared_is_not_the_same(tmp_path: Path) -> None:
    a, b, _ = in_two_places(tmp_path, digest_a=undigested, digest_b=undigested)
    shutil.rmtree(tmp_path / "b" / "state")

    with pytest.raises(StorageUnavailableError, match="cannot compare"):
        compare_query(a, b)


DIFFERENT_OFFSETS = {"a": Offsets(None, "1"), "b": Offsets(None, "2")}


@pytest.mark.parametrize(
    "found",
    [
        lambda same: replace(same, values=(Difference("batch", 1, 2),)),
        lambda same: replace(same, conf=(Difference("codec", "lz4", None),)),
        lambda same: replace(same, operators=(OperatorChange(0, "dedupe", None, ("it is gone",), refused=False),)),
        lambda same: replace(same, other_state_ids=("0/0/0",)),
        lambda same: replace(same, sources=(replace(same.sources[0], **DIFFERENT_OFFSETS),)),
        lambda same: replace(same, sources=(replace(same.sources[0], only_in_a=("read.json",)),)),
        lambda same: replace(same, sources=(replace(same.sources[0], only_in_b=("read.json",)),)),
        lambda same: replace(same, state=FileChanges({"1.delta": 1}, {}, {}, 0, 0)),
        lambda same: replace(same, state=FileChanges({}, {"1.delta": 1}, {}, 0, 0)),
        lambda same: replace(same, state=FileChanges({}, {}, {"1.delta": 1}, 0, 0)),
    ],
    ids=["value", "conf", "operator", "id", "offset", "unread", "read", "gone", "new", "changed"],
)
def test_one_difference_of_any_kind_is_enough(found: Callable[[QueryComparison], QueryComparison]) -> None:
    side = read_side(LocalTree(real("stateless")))
    same = compare_query(side, side)

    assert same.same
    assert not found(same).same


def offsets(topics: dict[str, dict[str, int]], *, watermark: int = 0, **conf: str) -> str:
    meta = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 1, "conf": conf})
    return f"v1\n{meta}\n{json.dumps(topics)}"


def with_offsets(place: Path, text: str) -> Side:
    """Return a checkpoint whose batch 2 has these offsets."""
    directory = checkpoint(place / QUERY)
    (directory / "offsets" / "2").write_text(text)
    return read_side(LocalTree(directory))


def test_kafka_is_compared_by_partition_with_numbers(tmp_path: Path) -> None:
    a = with_offsets(tmp_path / "a", offsets({"orders": {"0": 5, "1": 7, "10": 1}}))
    b = with_offsets(tmp_path / "b", offsets({"orders": {"0": 9, "1": 7, "2": 4}, "late": {"0": 1}}))

    (source,) = compare_query(a, b).sources

    assert [(part.topic, part.partition, part.a, part.b) for part in source.partitions] == [
        ("late", 0, None, 1),
        ("orders", 0, 5, 9),
        ("orders", 2, None, 4),
        ("orders", 10, 1, None),
    ]


def test_watermark_and_conf_are_told(tmp_path: Path) -> None:
    a = with_offsets(tmp_path / "a", offsets({}, watermark=5, codec="lz4", old="1", both="x"))
    b = with_offsets(tmp_path / "b", offsets({}, watermark=9, codec="zstd", new="2", both="x"))

    found = compare_query(a, b)

    assert values(found) == {"watermark (ms)": (5, 9)}
    assert [(item.what, item.a, item.b) for item in found.conf] == [
        ("codec", "lz4", "zstd"),
        ("new", None, "2"),
        ("old", "1", None),
    ]


def test_another_query_id_is_a_difference(tmp_path: Path) -> None:
    """Sinks that are exactly-once know the query by it."""
    other = "7d1f0c52-3a8e-4b6d-9c1f-2e4a6b8c0d1e"
    found = against_itself("stateless", tmp_path, lambda copy: edit(copy / "metadata", lambda _: f'{{"id":"{other}"}}'))

    assert values(found) == {"query id": (found.a.query_id, other)}


@pytest.mark.parametrize(
    ("a", "b", "told"), [("4.2.0", "4.3.0", {"release"}), ("4.2.0", "4.2.0", set()), ("4.2.0", None, set())]
)
def test_the_release_is_compared_where_both_tell_it(a: str, b: str | None, told: set[str]) -> None:
    side = read_side(LocalTree(real("stateless")))

    found = compare_query(replace(side, spark_version=a), replace(side, spark_version=b))

    assert set(values(found)) == told


METADATA = "state/0/_metadata/metadata"
SCHEMA = "state/0/0/_metadata/schema"


def as_bytes(old: bytes, new: bytes) -> Callable[[Path], None]:
    assert len(old) == len(new), "the schema file says how long its texts are"

    def change(copy: Path) -> None:
        path = copy / SCHEMA
        assert path.read_bytes().count(old) == 1
        path.write_bytes(path.read_bytes().replace(old, new))
        path.with_name(".schema.crc").unlink(missing_ok=True)

    return change


def in_metadata(old: str, new: str) -> Callable[[Path], None]:
    return lambda copy: edit(copy / METADATA, lambda text: text.replace(old, new))


@pytest.mark.parametrize(
    ("change", "told", "refused"),
    [
        (in_metadata("stateStoreSave", "dedupe"), "it was stateStoreSave and is dedupe", True),
        (in_metadata('"numPartitions":2', '"numPartitions":3'), "has 3 partitions instead of 2", False),
        (as_bytes(b'"type":"string"', b'"type":"double"'), "the key of store default is another type", True),
        (as_bytes(b'"name":"key"', b'"name":"kex"'), "the key of store default differs in names", False),
        (as_bytes(b'"type":"long"', b'"type":"date"'), "the value of store default is another type", True),
        (as_bytes(b"\x00\x02v2", b"\x00\x02v9"), "the schema of store default differs", None),
        (lambda copy: (copy / SCHEMA).unlink(), "has a schema only in A", None),
    ],
    ids=["renamed", "partitions", "key type", "key name", "value type", "unknown form", "no schema"],
)
def test_a_changed_operator_is_told_with_what_spark_says_to_it(
    tmp_path: Path, change: Callable[[Path], None], told: str, refused: bool | None
) -> None:
    found = against_itself("hdfs", tmp_path, change)

    (operator,) = found.operators
    assert any(told in text for text in operator.changes)
    assert (operator.refused, found.refused, found.same) == (refused, refused, False)


def test_an_operator_more_is_refused_where_operators_are_recorded(tmp_path: Path) -> None:
    a, b = read_side(LocalTree(real("hdfs"))), read_side(LocalTree(real("rocksdb2")))
    more = replace(b, operators={**b.operators, 1: b.operators[0]})

    (new,) = compare_query(b, more).operators
    (gone,) = compare_query(more, b).operators
    nameless = replace(b, operators={0: replace(b.operators[0], name="")})

    assert (new.a, new.b, new.changes, new.refused) == (None, "stateStoreSave", ("it is new",), True)
    assert (gone.changes, gone.refused) == (("it is gone",), True)
    assert compare_query(nameless, more).refused is None  # before 4.0 nothing is recorded, and nothing compared
    assert compare_query(a, b).refused is False  # another provider, and the same operator


def struct(nullable: bool, kind: Any = "long", name: str = "n") -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": nullable}]}


def array(nullable: bool) -> dict[str, Any]:
    return {"type": "array", "elementType": "long", "containsNull": nullable}


def mapping(nullable: bool, key: str = "string") -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": "long", "valueContainsNull": nullable}


@pytest.mark.parametrize(
    ("stored", "new", "taken"),
    [
        (struct(True), struct(True, name="other"), True),
        (struct(True), struct(False), True),
        (struct(False), struct(True), False),
        (struct(True), struct(True, "double"), False),
        (struct(True), {"type": "struct", "fields": []}, False),
        (struct(True, struct(False)), struct(True, struct(True)), False),
        (array(True), array(False), True),
        (array(False), array(True), False),
        (mapping(True), mapping(False), True),
        (mapping(False), mapping(True), False),
        (mapping(True), mapping(True, "long"), False),
        (array(True), mapping(True), False),
        ("long", "long", True),
    ],
)
def test_types_have_to_be_equal_and_null_must_have_been_allowed(stored: Any, new: Any, taken: bool) -> None:
    assert accepts(stored, new) is taken


def test_queries_are_compared_by_name_and_two_single_ones_with_each_other() -> None:
    side = read_side(LocalTree(real("stateless")))

    both = compare({"up": side, "down": side}, {"up": side, "other": side})
    single = compare({"sp": side}, {"stats": side})

    assert (list(both.queries), both.only_in_a, both.only_in_b, both.same) == (["up"], ("down",), ("other",), False)
    assert single.same


def test_a_checkpoint_that_lacks_a_file_is_not_compared(tmp_path: Path) -> None:
    copy = corpus.checkpoint_copy("hdfs", tmp_path / "copy")
    shutil.rmtree(copy / "state" / "0" / "0")

    with pytest.raises(CheckpointCorruptError):
        read_side(LocalTree(copy))


def call(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["checkpoint", "diff", *map(str, words)], obj=Target())
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def test_a_savepoint_and_the_directory_that_it_was_taken_of(tmp_path: Path) -> None:
    live = checkpoint(tmp_path / "live" / QUERY)
    take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    before = call(tmp_path / "sp", live)
    write_batch(live, 3)
    after = call(tmp_path / "sp", live)
    document = json.loads(call(tmp_path / "sp", live, "--json")[1])

    assert (before[0], after[0]) == (SAME, DIFFERENT)
    assert f"query {QUERY} is the same in A and B" in before[1]
    assert re.search(r"topic/0 +2 +3 +1", after[1])
    assert (document["same"], document["queries"][QUERY]["b"]["batch"]) == (False, 3)
    assert document["queries"][QUERY]["sources"][0]["partitions"] == [
        {"topic": "topic", "partition": 0, "a": 2, "b": 3}
    ]


def test_two_batches_of_one_directory() -> None:
    code, text, _ = call(real("hdfs"), "--batch", 3, "--batch", 5)

    assert code == DIFFERENT
    assert re.search(r"batch +3 +5", text)
    assert "004.json" in text
    assert call(real("hdfs"), real("hdfs"), "--batch", 3)[0] == SAME


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("./a",), "does not name two checkpoints"),
        (("./a", "--batch", "1"), "does not name two checkpoints"),
        (("orders", "1"), "does not name two checkpoints"),
        (("./a", "./b", "./c"), "does not name two checkpoints"),
        (("./a", "abfss://container@host/b"), "not on a file system of this host"),
        (("./absent", "./absent"), "not a directory of this host"),
    ],
)
def test_what_cannot_be_compared_is_unknown_and_told(words: tuple[str, ...], reason: str) -> None:
    code, _, stderr = call(*words)

    assert code == UNREAD
    assert reason in stderr


def test_what_is_damaged_or_gone_is_unknown_too(tmp_path: Path) -> None:
    live = checkpoint(tmp_path / QUERY)
    take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))

    assert call(live, live, "--batch", 7)[0] == UNREAD
    assert "one batch only" in call(tmp_path / "sp", live, "--batch", 1)[2]
    (live / "offsets" / "2").write_text("")
    assert call(tmp_path / "sp", live)[0] == UNREAD
