"""What Spark loads and starts of every shape, and what it refuses that no look at the files can see."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_result import Proof, ProofOutcome
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.jobs.verification.spark_proof import ProofProgress, prove
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark import running_queries, tws_job
from tests.support.spark.corpus import BATCHES, SHAPES, SHORT_SHAPES, checkpoint_copy
from tests.support.spark.proven_queries import application, fingerprint


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
OFTEN = {"rocksdb2-join", "hdfs-zstd"}  # one of each provider

# Shape -> rows of state after its newest batch, by store: four keys, or the pairs of a join's sides.
ROWS = {
    "stateless": {},
    "hdfs-global": {"default": 1},
    "rocksdb2-join": {
        "left-keyToNumValues": 4,
        "left-keyWithIndexToValue": 18,
        "right-keyToNumValues": 4,
        "right-keyWithIndexToValue": 18,
    },
}


def proven(directory: Path, **wanted: object) -> Proof:
    """Prove with what a test's Spark needs, and see that nothing was written."""
    before = fingerprint(directory.parent)
    proof = prove(LocalTree(directory), env=os.environ, deadline=800, **wanted)  # type: ignore[arg-type]
    assert fingerprint(directory.parent) == before
    return proof


@pytest.mark.hours
@pytest.mark.parametrize(
    "shape", [shape if shape in OFTEN else pytest.param(shape, marks=pytest.mark.hours) for shape in SHAPES]
)
def test_every_shape_is_loaded_at_its_newest_batch(shape: str, tmp_path: Path) -> None:
    proof = proven(checkpoint_copy(shape, tmp_path / "place" / "c"))

    assert proof.findings == ()
    assert (proof.proven, proof.batch) == (True, SHORT_SHAPES.get(shape, BATCHES) - 1)
    assert proof.loading.outcome is (ProofOutcome.PROVEN if proof.state else ProofOutcome.NOTHING)
    assert {s.reading.store: sum(s.rows) for s in proof.state} == ROWS.get(shape, {"default": 4})


@pytest.mark.hours
@pytest.mark.parametrize("shape", ["hdfs", "rocksdb1", "rocksdb2-changelog"])
def test_each_format_of_state_is_loaded_at_an_older_batch(shape: str, tmp_path: Path) -> None:
    proof = proven(checkpoint_copy(shape, tmp_path / "place" / "c"), batch=BATCHES - 2)

    assert proof.findings == ()
    assert (proof.proven, proof.batch, proof.loading.outcome) == (True, BATCHES - 2, ProofOutcome.PROVEN)


@pytest.mark.hours
@pytest.mark.parametrize("kind", ["foreach", "table", "other-first"])
def test_no_sink_of_the_script_is_touched(kind: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("rocksdb2", tmp_path / "place" / "c")
    proof = proven(checkpoint, application=application("rocksdb2", checkpoint, tmp_path / "trace", kind), batch=6)

    assert (proof.proven, proof.starting.outcome) == (True, ProofOutcome.PROVEN)
    assert proof.started is not None
    assert (proof.started.batch, proof.started.state_rows) == (7, (4,))
    assert list((tmp_path / "trace").iterdir()) == []


@pytest.mark.parametrize("kind", ["finally", "thread"])
def test_nothing_of_a_script_is_executed_behind_the_start_of_its_query(kind: str, tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("rocksdb2", tmp_path / "place" / "c")
    proof = proven(checkpoint, application=application("rocksdb2", checkpoint, tmp_path / "trace", kind), batch=6)

    assert (proof.proven, proof.starting.outcome) == (True, ProofOutcome.PROVEN)
    assert list((tmp_path / "trace").iterdir()) == []


@pytest.mark.hours
def test_a_script_without_the_query_is_not_executed_behind_its_last_wait(tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("hdfs", tmp_path / "place" / "c")
    asked = application("hdfs", checkpoint, tmp_path / "trace", "not-asked-for")

    proof = proven(checkpoint, application=asked)

    assert proof.proven is None
    assert "it starts other" in proof.starting.reason


@pytest.mark.hours
def test_a_file_sink_is_not_touched_and_a_query_without_state_is_started_too(tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("stateless", tmp_path / "place" / "c")
    proof = proven(checkpoint, application=application("stateless", checkpoint, tmp_path / "trace", "file"))

    assert (proof.proven, proof.loading.outcome) == (True, ProofOutcome.NOTHING)
    assert proof.started is not None
    assert (proof.started.name, proof.started.batch, proof.started.state_rows) == ("plain", 9, ())
    assert list((tmp_path / "trace").iterdir()) == []


@pytest.mark.hours
@pytest.mark.parametrize(("kind", "reason"), [("never", "it starts no query"), ("raises", "ValueError: no such table")])
def test_a_script_that_does_not_start_the_query_leaves_the_question_open(
    kind: str, reason: str, tmp_path: Path
) -> None:
    checkpoint = checkpoint_copy("hdfs", tmp_path / "place" / "c")
    proof = proven(checkpoint, application=application("hdfs", checkpoint, tmp_path / "trace", kind))

    assert (proof.proven, proof.loading.outcome) == (None, ProofOutcome.PROVEN)
    assert reason in proof.starting.reason


@pytest.mark.hours
def test_an_application_that_does_not_fit_the_state_is_refuted_with_what_spark_says(tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("hdfs", tmp_path / "place" / "c")
    proof = proven(checkpoint, application=application("hdfs", checkpoint, tmp_path / "trace", "other-schema"))
    (finding,) = proof.findings

    assert (proof.proven, proof.loading.outcome) == (False, ProofOutcome.PROVEN)
    assert (finding.code, finding.blocks) == (Code.START_REFUSED, True)
    assert "SCHEMA" in finding.found


def tables_of_the_other_partition(checkpoint: Path) -> None:
    """Put tables of one partition in the place of those of the other that have the same size."""
    others = {path.stat().st_size: path for path in (checkpoint / "state/0/1/SSTs").glob("*.sst")}
    for path in (checkpoint / "state/0/0/SSTs").glob("*.sst"):
        if path.stat().st_size in others:
            path.write_bytes(others[path.stat().st_size].read_bytes())
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def manifest_with_a_wrong_bit(checkpoint: Path) -> None:
    """Flip a byte in RocksDB's own log of its tables, and make the zip anew, so that every checksum of it fits."""
    path = checkpoint / "state/0/0/9.zip"
    with zipfile.ZipFile(path) as before:
        members = {name: bytearray(before.read(name)) for name in before.namelist()}
    for name, content in members.items():
        if name.startswith("MANIFEST"):
            content[len(content) // 2] ^= 0xFF
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as after:
        for name, content in members.items():
            after.writestr(name, bytes(content))
    path.with_name(f".{path.name}.crc").unlink()


def changelog_of_another_batch(checkpoint: Path) -> None:
    """Give the changelog of one version, with its checksum, the name of a later one."""
    store = checkpoint / "state/0/0"
    ((target,), (source,)) = store.glob("9_*.changelog"), store.glob("7_*.changelog")
    for path in [*store.glob("9_*.zip*"), *store.glob(".9_*")]:
        path.unlink()
    shutil.copy(source, target)
    shutil.copy(f"{source}.crc", f"{target}.crc")


@pytest.mark.hours
@pytest.mark.parametrize(
    ("shape", "damage"),
    [
        ("rocksdb1", tables_of_the_other_partition),
        ("rocksdb1", manifest_with_a_wrong_bit),
        ("rocksdb2-changelog", changelog_of_another_batch),
    ],
)
def test_spark_refuses_what_every_look_at_the_files_accepts(
    shape: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    checkpoint = checkpoint_copy(shape, tmp_path / "place" / "c")
    damage(checkpoint)

    assert 8 in verify(LocalTree(checkpoint), depth="full").restorable
    proof = proven(checkpoint, batch=8)

    assert proof.proven is False
    assert [finding.code for finding in proof.findings] == [Code.LOAD_REFUSED]


@pytest.mark.hours
def test_a_state_file_of_another_batch_is_loaded_and_its_rows_tell(tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("hdfs-snappy", tmp_path / "place" / "c")
    shutil.copy(checkpoint / "state/0/0/1.delta", checkpoint / "state/0/0/3.delta")
    shutil.copy(checkpoint / "state/0/0/.1.delta.crc", checkpoint / "state/0/0/.3.delta.crc")
    proof = proven(checkpoint)

    # Format 1 knows a file by its name alone: neither the files nor Spark can tell that these are old values.
    assert proof.proven is True
    assert {s.reading.store: sum(s.rows) for s in proof.state} == {"default": 4}


@pytest.mark.hours
def test_every_variable_of_transform_with_state_is_loaded(tmp_path: Path) -> None:
    checkpoint = tws_job.make(tmp_path)
    proof = prove(LocalTree(checkpoint), env=os.environ, deadline=800)

    assert proof.proven is True
    assert [(s.reading.kind, s.reading.variable, sum(s.rows)) for s in proof.state] == [("variable", "count", 4)]


@pytest.mark.hours
def test_a_running_query_is_proven_from_a_copy(tmp_path: Path) -> None:
    with running_queries.running(tmp_path) as place:
        commits = place / "live" / "down" / "commits"
        wait_until(lambda: len(list(commits.glob("[0-9]*"))) > 4, timeout=600, what="some batches")
        proof = prove(LocalTree(place / "live" / "down"), env=os.environ, deadline=800)

    assert proof.proven is True, proof.findings
    assert sum(proof.state[0].rows) == 5


@pytest.mark.hours
def test_a_jvm_that_is_killed_leaves_the_question_open(tmp_path: Path) -> None:
    checkpoint = checkpoint_copy("hdfs", tmp_path / "place" / "c")
    seen = threading.Event()

    def show(now: ProofProgress) -> None:
        if now.doing == "loading the state" and not seen.is_set():
            seen.set()  # Spark is up, and nothing is read yet
            for process in psutil.Process().children(recursive=True):
                if process.name() == "java":
                    process.send_signal(signal.SIGKILL)

    proof = proven(checkpoint, progress_to=show)

    assert seen.is_set()
    assert proof.proven is None
    assert "JVM ended with code -9" in proof.loading.reason
    assert list((tmp_path / "place").iterdir()) == [checkpoint]
