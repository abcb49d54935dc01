"""A working directory that names what it inherits, as it is read and written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.base_file import FILE, Base, BaseEntry
from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.sinks.file_sink_log import sink_log
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, ConfigurationError
from tests.support.checkpoints.layered_files import FIRST, JOB, SECOND, THIRD, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint


def restorable(tree: Tree) -> Sequence[int]:
    """Return the batches that a verification finds whole."""
    return verify(tree, spark_version="4.2.0").restorable


def test_a_successor_reads_inherited_files_and_its_own(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)
    job.commit(SECOND, 3)

    tree = job.area.tree(SECOND) / QUERY

    assert tree.names("offsets") == ["0", "1", "2", "3"]
    assert (progress(tree), restorable(tree)) == (Progress(3, 3), [0, 1, 2, 3])
    assert sorted(path.name for path in job.query(SECOND).iterdir()) == [FILE, "commits", "offsets"]


def test_a_part_of_a_directory_is_read_alone_as_it_is_in_the_whole(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)

    log = (job.area.tree(SECOND) / QUERY / "offsets").fresh()

    assert (log.names(), log.read("2")) == (["0", "1", "2"], (job.query(FIRST) / "offsets" / "2").read_bytes())


def test_an_own_file_hides_the_inherited_one(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)
    tree = job.area.tree(SECOND) / QUERY

    tree.write("offsets/2", b"own")

    assert (tree.read("offsets/2"), tree.fresh().read("offsets/2"), tree.file_size("offsets/2")) == (b"own", b"own", 3)
    assert (job.query(FIRST) / "offsets" / "2").read_bytes() != b"own"


def test_what_a_frozen_driver_writes_later_is_never_inherited(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)

    job.commit(FIRST, 4)

    assert progress(job.area.tree(SECOND) / QUERY) == Progress(2, 2)


def test_bases_are_flat_over_any_number_of_takeovers(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)
    job.commit(SECOND, 3)
    job.take_over(SECOND, THIRD)

    tree = job.area.tree(THIRD) / QUERY
    tree.names()
    places = [entry.place for name in ("metadata", "offsets/2", "offsets/3") if (entry := tree.place_of(name))]

    assert places == [f"{FIRST}/{QUERY}/metadata", f"{FIRST}/{QUERY}/offsets/2", f"{SECOND}/{QUERY}/offsets/3"]
    assert progress(tree) == Progress(3, 3)


@pytest.mark.parametrize("same_size", [True, False], ids=["same-size", "other-size"])
def test_a_file_that_was_written_again_under_its_name_is_refused(job: LayeredFiles, same_size: bool) -> None:
    state = job.query(FIRST) / "state" / "0" / "0" / "3.delta"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"as it was")
    job.take_over(FIRST, SECOND)

    state.write_bytes(b"as it is." if same_size else b"another one")
    os.utime(state, (1, 1))

    with pytest.raises(CheckpointCorruptError, match="differs from its base entry"):
        (job.area.tree(SECOND) / QUERY).read("state/0/0/3.delta")


def test_a_damaged_base_is_damage_and_no_empty_directory(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)
    base = job.query(SECOND) / FILE
    base.write_bytes(base.read_bytes()[:-2])

    report = verify(LayeredFiles(job.root).area.tree(SECOND) / QUERY, spark_version="4.2.0")

    assert [(found.code, found.path) for found in report.findings] == [(Code.BASE_CORRUPT, FILE)]
    assert (report.startable, report.restorable) == (False, [])


def test_a_directory_that_is_over_keeps_the_files_that_others_name(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)

    job.area.remove(FIRST)

    assert not job.area.contains(FIRST)
    assert restorable(job.area.tree(SECOND) / QUERY) == [0, 1, 2]


def test_all_directories_of_a_job_are_over_together(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)

    job.area.remove("jobs/flights/live")

    assert list(job.area.list("jobs/flights/live/")) == []
    assert (job.query(FIRST) / "metadata").exists()


def test_a_part_of_a_working_directory_is_not_removed(job: LayeredFiles) -> None:
    with pytest.raises(ConfigurationError, match="part of a working directory"):
        job.area.remove(f"{FIRST}/{QUERY}")


def test_files_with_absolute_paths_name_the_directory_that_they_are_read_in(job: LayeredFiles) -> None:
    schema = "state/0/_stateSchema/default/0_5e1c"
    metadata = job.query(FIRST) / "state" / "0" / "_metadata" / "v2" / "0"
    for path in (metadata, job.query(FIRST) / schema):
        path.parent.mkdir(parents=True, exist_ok=True)
    (job.query(FIRST) / schema).write_text("v3")
    metadata.write_text(f'v2\n{{"stateSchemaFilePaths":["hafile:///elsewhere/{schema}"]}}')

    job.take_over(FIRST, SECOND)

    tree = job.area.tree(SECOND) / QUERY
    assert f'"{job.area.uri(SECOND)}/{QUERY}/{schema}"' in tree.read("state/0/_metadata/v2/0").decode()
    assert (tree.place_of("state/0/_metadata/v2/0"), tree.read(schema)) == (None, b"v3")


def test_a_restore_to_an_older_cut_names_its_closure_and_nothing_else(job: LayeredFiles) -> None:
    job.area.create(SECOND)

    job.area.fork(f"{FIRST}/{QUERY}", f"{SECOND}/{QUERY}", batch=1, keep_planned=False)

    tree = job.area.tree(SECOND) / QUERY
    assert (progress(tree), tree.names("offsets"), tree.names("commits")) == (Progress(1, 1), ["0", "1"], ["1"])


@pytest.mark.parametrize("gone", ["commits/2", "offsets/1"])
def test_a_cut_of_a_batch_that_is_gone_is_not_retained(job: LayeredFiles, gone: str) -> None:
    (job.query(FIRST) / gone).unlink()

    with pytest.raises(CheckpointMissingError):
        job.area.retain(FIRST, JOB.pin(1, 1), {QUERY: 2}, sinks={})


def test_a_retained_cut_is_its_directory_and_nothing_is_written(job: LayeredFiles) -> None:
    before = sorted(job.root.rglob("*"))

    retained = job.area.retain(FIRST, JOB.pin(1, 1), {QUERY: 2}, sinks={})

    assert (retained.key, sorted(job.root.rglob("*"))) == (FIRST, before)


def test_the_log_of_a_file_sink_is_kept_beside_the_queries(job: LayeredFiles, tmp_path: Path) -> None:
    """The query purges it in its output, and a restore to another output needs it."""
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(3):
        (log / str(batch)).write_text("v1")

    job.area.retain(FIRST, JOB.pin(1, 1), {QUERY: 2}, sinks={QUERY: sink_log(str(tmp_path / "out"))})

    assert sink_directory(job.area.tree(FIRST), QUERY).names("_spark_metadata") == ["0", "1", "2"]


def test_what_a_savepoint_was_restored_to_outlives_it(job: LayeredFiles) -> None:
    """A savepoint is removed with its files: nothing may name them."""
    savepoint = JOB.savepoint("s1")
    checkpoint(job.query(savepoint))
    job.area.create(SECOND)

    job.area.fork(f"{savepoint}/{QUERY}", f"{SECOND}/{QUERY}", batch=1, keep_planned=False)
    job.area.remove(savepoint)

    tree = job.area.tree(SECOND) / QUERY
    left = [path for path in job.query(savepoint).rglob("*") if path.is_file()]
    assert (left, progress(tree), restorable(tree)) == ([], Progress(1, 1), [1])


def test_a_base_of_another_directory_is_not_read(job: LayeredFiles) -> None:
    """Only that of a query directory counts: a file of that name anywhere else is a file."""
    entry = BaseEntry("stolen", f"{FIRST}/{QUERY}/metadata", 1)
    (job.query(FIRST) / "offsets" / FILE).write_bytes(Base.of([entry]).to_bytes())

    assert "stolen" not in job.area.tree(FIRST).names(f"{QUERY}/offsets")


def test_a_directory_that_has_files_and_no_base_is_not_asked_for_one_again(
    job: LayeredFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = job.files.read

    def noted(key: str) -> bytes:
        asked.append(key)
        return read(key)

    monkeypatch.setattr(job.files, "read", noted)

    progress(job.area.tree(FIRST) / QUERY)

    assert asked.count(f"{FIRST}/{QUERY}/{FILE}") == 1


def test_a_directory_that_is_empty_may_get_a_base_yet(job: LayeredFiles) -> None:
    tree = (job.area.tree(SECOND) / QUERY).fresh()
    assert tree.names("offsets") == []

    job.take_over(FIRST, SECOND)

    assert tree.fresh().names("offsets") == ["0", "1", "2"]


def test_a_file_is_the_same_one_in_the_directory_that_owns_it_and_in_those_that_inherit_it(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)
    job.take_over(SECOND, THIRD)

    names = {job.area.tree(key).identity(f"{QUERY}/offsets/2") for key in (FIRST, SECOND, THIRD)}

    assert len(names) == 1


def test_a_file_that_hides_an_inherited_one_is_another_one(job: LayeredFiles) -> None:
    job.take_over(FIRST, SECOND)
    before = job.area.tree(SECOND).identity(f"{QUERY}/offsets/2")

    (job.area.tree(SECOND) / QUERY).write("offsets/2", job.area.tree(FIRST).read(f"{QUERY}/offsets/2"))

    assert job.area.tree(SECOND).identity(f"{QUERY}/offsets/2") != before
