"""Schema paths follow a checkpoint to its new place, and the savepoint that it came from stays as it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.operators import checked_by, relocate
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout, SavepointDirectory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError, ObjectExistsError
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint, names_in, savepoint


SCHEMA = "state/0/_stateSchema/default/0_d05792ca-4433-4a5f-8a4d-f5749a0df947"


def with_schemas(directory: Path, stores: list[dict[str, object]]) -> Path:
    """Add the operator metadata of a transformWithState, as Spark 4.2 writes it, with checksums."""
    path = directory / "state" / "0" / "_metadata" / "v2" / "0"
    path.parent.mkdir(parents=True)
    operator = {"operatorId": 0, "operatorName": "transformWithStateInPySparkExec"}
    path.write_text(f"v2\n{json.dumps({'operatorInfo': operator, 'stateStoreInfo': stores})}")
    for name in (".0.crc", "0.crc", ".0.crc.crc"):
        (path.parent / name).write_text("of the old bytes")
    return path


def stateful(directory: Path) -> Path:
    """Make a checkpoint of three batches whose one store names its schema file where it lies."""
    checkpoint(directory)
    store = {"storeName": "default", "numPartitions": 1, "stateSchemaFilePaths": [f"file:{directory}/{SCHEMA}"]}
    with_schemas(directory, [store])
    (directory / SCHEMA).parent.mkdir(parents=True)
    (directory / SCHEMA).write_bytes(b"\x00\x02v3" + bytes(4))  # of no column family
    (directory / "state" / "0" / "0").mkdir()
    for version in (1, 2, 3):
        (directory / "state" / "0" / "0" / f"{version}.delta").write_bytes(b"LZ4Block, not looked into here")
    return directory


def test_new_and_old_keys_name_the_new_place(tmp_path: Path) -> None:
    path = with_schemas(
        tmp_path,
        [{"stateSchemaFilePaths": [f"file:/old/x/state/y/{SCHEMA}"]}, {"stateSchemaFilePath": f"/old/x/{SCHEMA}"}],
    )

    relocate(tmp_path, Path("/new place"))

    stores = json.loads(path.read_text().partition("\n")[2])["stateStoreInfo"]
    assert stores == [
        {"stateSchemaFilePaths": [f"file:/new place/{SCHEMA}"]},
        {"stateSchemaFilePath": f"/new place/{SCHEMA}"},
    ]
    assert path.read_text().startswith("v2\n")
    assert names_in(path.parent) == ["0"]


@pytest.mark.parametrize("name", ["a/0.crc", "a/.0.crc", "a/.0.crc.crc", "a/0"])
def test_each_kind_of_checksum_is_of_its_file(name: str) -> None:
    assert checked_by(name) == "a/0"


def test_what_names_no_path_is_not_written_again(tmp_path: Path) -> None:
    path = with_schemas(tmp_path, [{"storeName": "default", "stateSchemaFilePath": None}])
    before = path.read_bytes()

    relocate(tmp_path, Path("/new"))

    assert path.read_bytes() == before
    assert names_in(path.parent) == [".0.crc", ".0.crc.crc", "0", "0.crc"]


def test_metadata_that_cannot_be_read_is_told_with_its_path(tmp_path: Path) -> None:
    with_schemas(tmp_path, []).write_text("v2\n{")

    with pytest.raises(CheckpointCorruptError, match="state/0/_metadata/v2/0"):
        relocate(tmp_path, Path("/new"))


def test_a_link_is_replaced_and_never_edited(tmp_path: Path) -> None:
    path = with_schemas(tmp_path / "a", [{"stateSchemaFilePaths": [f"/old/{SCHEMA}"]}])
    linked = tmp_path / "b" / path.relative_to(tmp_path / "a")
    linked.parent.mkdir(parents=True)
    os.link(path, linked)

    relocate(tmp_path / "b", Path("/new"))

    assert "/old/" in path.read_text()
    assert "/new/" in linked.read_text()


def test_a_savepoint_is_restored_any_number_of_times_and_stays_as_it_is(tmp_path: Path) -> None:
    live = stateful(tmp_path / "live" / QUERY)
    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))
    before = {name: (tmp_path / "sp" / name).read_bytes() for name in made.files}

    for name in ("one", "two"):
        restore(SavepointDirectory(tmp_path / "sp", made), tmp_path / name)

    for name in ("one", "two"):
        rewritten = (tmp_path / name / QUERY / "state" / "0" / "_metadata" / "v2" / "0").read_text()
        assert f"file:{tmp_path}/{name}/{QUERY}/{SCHEMA}" in rewritten
    assert {name: (tmp_path / "sp" / name).read_bytes() for name in made.files} == before
    assert {path.stat().st_nlink for path in (tmp_path / "one").rglob("*") if path.is_file()} == {1}


def test_a_relative_target_gets_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = stateful(tmp_path / "live" / QUERY)
    made = take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))
    monkeypatch.chdir(tmp_path)

    restore(SavepointDirectory(Path("sp"), made), Path("at"))

    assert f'"file:{tmp_path}/at/{QUERY}/{SCHEMA}"' in (tmp_path / f"at/{QUERY}/state/0/_metadata/v2/0").read_text()


@pytest.mark.parametrize("damage", ["gone", "other bytes"])
def test_a_savepoint_that_differs_from_its_manifest_is_not_restored(tmp_path: Path, damage: str) -> None:
    directory, made = savepoint(tmp_path)
    path = directory / QUERY / "commits" / "2"
    path.unlink() if damage == "gone" else path.write_text(path.read_text().replace("0", "1"))

    with pytest.raises(CheckpointCorruptError, match="commits/2"):
        restore(SavepointDirectory(directory, made), tmp_path / "at")

    assert names_in(tmp_path) == ["live", "sp"]


def test_a_savepoint_that_nobody_could_start_from_is_not_restored(tmp_path: Path) -> None:
    directory, made = savepoint(tmp_path)
    queries = {QUERY: made.queries[QUERY].model_copy(update={"batch": 7})}

    with pytest.raises(CheckpointCorruptError, match=QUERY):
        restore(SavepointDirectory(directory, made.model_copy(update={"queries": queries})), tmp_path / "at")

    assert names_in(tmp_path) == ["live", "sp"]


def test_nothing_is_restored_over_something_or_into_nowhere(tmp_path: Path) -> None:
    directory, made = savepoint(tmp_path)

    with pytest.raises(ObjectExistsError):
        restore(SavepointDirectory(directory, made), tmp_path / "live")
    with pytest.raises(ConfigurationError):
        restore(SavepointDirectory(directory, made), tmp_path / "unmounted" / "at")

    assert judge(SavepointDirectory(directory, made)).restorable is True
