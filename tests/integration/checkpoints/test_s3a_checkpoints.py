"""Checkpoints that Spark wrote through S3A, and savepoints that were moved."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import open_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore as restore_here
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.s3.s3_checkpoints import put_directory, tree
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.s3.s3a_program import APPS, ROWS_PER_BATCH, running, write_conf
from tests.support.s3.savepoints import place_of, restore, take
from tests.support.spark import tws_job


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]
SPARK = "4.2.0"
PATIENCE = 900  # seconds; the first start downloads S3A


@dataclass
class Bucket:
    """A bucket with the checkpoint of a query that ran on S3A, below ``checkpoint``."""

    s3: S3Access
    name: str

    def keys(self, prefix: str) -> list[str]:
        pages = self.s3.client().get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def newest(self, folder: str) -> str:
        """Return the key of the entry with the highest number."""
        return max((key for key in self.keys(f"{folder}/") if number_of(key) >= 0), key=number_of)

    def read(self, key: str) -> bytes:
        content: bytes = self.s3.client().get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def write(self, key: str, content: bytes) -> None:
        self.s3.client().put_object(Bucket=self.name, Key=key, Body=content)

    def remove(self, key: str) -> None:
        self.s3.client().delete_object(Bucket=self.name, Key=key)

    def copy(self, target: str) -> str:
        """Copy the checkpoint, to be damaged; return its prefix."""
        for key in self.keys("checkpoint/"):
            self.write(target + key.removeprefix("checkpoint"), self.read(key))
        return target


def number_of(key: str) -> int:
    digits = key.rpartition("/")[2].partition(".")[0].partition("_")[0]
    return int(digits) if digits.isdigit() else -1


def batches(notes: Path) -> dict[int, int]:
    """Return what the query noted: batch -> rows so far."""
    return {int(path.name): int(path.read_text()) for path in notes.iterdir() if path.name.isdigit()}


def wait_for(process: subprocess.Popen[bytes], notes: Path, batch: int, log: Path) -> None:
    def reached() -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")[-4000:]
        return max(batches(notes), default=-1) >= batch

    wait_until(reached, timeout=PATIENCE, what=f"batch {batch}")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    """Run a query, judge and save it while it runs, go on from what was saved, and keep what the first run left."""
    folder = tmp_path_factory.mktemp("s3a")
    with real_server() as s3:
        bucket = Bucket(s3, s3.new_bucket())
        notes, again = folder / "notes", folder / "again"
        notes.mkdir()
        again.mkdir()
        conf, log = write_conf(folder, s3, s3.endpoint), folder / "spark.log"
        query = (APPS / "s3a_counts.py", conf)
        one = place_of(s3, bucket.name)
        with running(log, *query, f"s3a://{bucket.name}/checkpoint", notes) as process:
            wait_for(process, notes, 3, log)
            assert verify(tree(s3, bucket.name, "checkpoint"), spark_version=SPARK).startable is True
            source = SavepointSource(query="counts", directory=f"s3://{bucket.name}/checkpoint")
            savepoint = take(one, [source], spark_version=SPARK)
            wait_for(process, notes, savepoint.queries["counts"].batch + 2, log)
        restore(s3, one, "restored")
        cut = savepoint.queries["counts"].batch
        with running(log, *query, f"s3a://{bucket.name}/restored/counts", again) as process:
            wait_for(process, again, cut + 2, log)
        done = batches(again)
        assert min(done) == cut + 1
        assert done == {batch: ROWS_PER_BATCH * (batch + 1) for batch in done}
        yield bucket


@pytest.mark.hours
def test_what_spark_left_when_it_was_killed_is_startable_and_has_no_temporary_names(bucket: Bucket) -> None:
    """The fixture has judged it while it ran, and let Spark go on from a savepoint with the right rows."""
    report = verify(tree(bucket.s3, bucket.name, "checkpoint"), spark_version=SPARK)

    assert report.startable is True, report.findings
    assert len(report.restorable) >= 4
    assert [key for key in bucket.keys("checkpoint/") if "/." in key or "tmp" in key] == []
    assert "checkpoint/offsets/" in bucket.keys("checkpoint/")  # S3A's markers


def emptied(folder: str) -> Callable[[Bucket, str], None]:
    return lambda bucket, copy: bucket.write(bucket.newest(f"{copy}/{folder}"), b"")


def lose_the_entry_before_the_last(bucket: Bucket, copy: str) -> None:
    newest = bucket.newest(f"{copy}/offsets")
    bucket.remove(f"{copy}/offsets/{number_of(newest) - 1}")


def lose_the_state(bucket: Bucket, copy: str) -> None:
    for key in bucket.keys(f"{copy}/state/"):
        bucket.remove(key)


def halve_what_the_last_commit_names(bucket: Bucket, copy: str) -> None:
    for key in _of_the_last_commit(bucket, copy):
        bucket.write(key, bucket.read(key)[: len(bucket.read(key)) // 2])


def lose_what_the_last_commit_names(bucket: Bucket, copy: str) -> None:
    for key in _of_the_last_commit(bucket, copy):
        bucket.remove(key)


def _of_the_last_commit(bucket: Bucket, copy: str) -> list[str]:
    newest = bucket.newest(f"{copy}/commits")
    ids = json.loads(bucket.read(newest).decode().partition("\n")[2])["stateUniqueIds"]["0"][0]
    stem = f"{copy}/state/0/0/{number_of(newest) + 1}_{ids[0]}."
    return [key for key in bucket.keys(stem) if not key.endswith(".crc")]


@pytest.mark.hours
@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (lambda bucket, copy: bucket.remove(f"{copy}/metadata"), "METADATA_MISSING"),
        (lambda bucket, copy: bucket.write(f"{copy}/metadata", b""), "METADATA_CORRUPT"),
        (emptied("offsets"), "OFFSETS_CORRUPT"),
        (lose_the_entry_before_the_last, "OFFSETS_MISSING"),
        (emptied("commits"), "COMMITS_CORRUPT"),
        (lose_the_state, "STATE_MISSING"),
        (halve_what_the_last_commit_names, "STATE_CORRUPT"),
        (lose_what_the_last_commit_names, "STATE_MISSING"),
    ],
    ids=["no-id", "empty-id", "empty-offsets", "gap", "empty-commit", "no-state", "half-state", "lost-state"],
)
def test_damage_in_the_bucket_is_found(
    damage: Callable[[Bucket, str], None], code: str, bucket: Bucket, request: pytest.FixtureRequest
) -> None:
    copy = bucket.copy(request.node.callspec.id)
    damage(bucket, copy)

    report: VerificationReport = verify(tree(bucket.s3, bucket.name, copy), spark_version=SPARK)

    assert report.startable is False
    assert code in [finding.code.value for finding in report.findings]


def schema_paths(value: Any) -> Iterator[str]:
    """Yield every path of a schema file that the metadata of an operator names."""
    for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]:
        if isinstance(item, str):
            yield from [item] if "/_stateSchema/" in item else []
        elif isinstance(item, list | dict):
            yield from schema_paths(item)


@pytest.mark.hours
def test_a_query_goes_on_from_a_savepoint_on_s3_in_another_place(s3: S3Access, tmp_path: Path) -> None:
    live, bucket = tws_job.make(tmp_path), s3.new_bucket()
    put_directory(s3, bucket, "live/counts", live)
    one = place_of(s3, bucket)
    savepoint = take(one, [SavepointSource(query="counts", directory=f"s3://{bucket}/live/counts")])

    restore(s3, one, "again")
    restore_here(open_savepoint(one), tmp_path / "here")

    moved = tree(s3, bucket, "again/counts")
    operators = moved / "state/0/_metadata/v2"
    contents = [json.loads(operators.read(name).partition(b"\n")[2]) for name in operators.names()]
    named = [path for content in contents for path in schema_paths(content)]
    assert named
    for path in named:
        assert path.startswith(f"s3a://{bucket}/again/counts/state/")
        assert moved.has(path.removeprefix(f"s3a://{bucket}/again/counts/"))
    assert verify(moved, depth="full").restorable[-1] == savepoint.queries["counts"].batch
    answers = tws_job.go_on([tmp_path / "here" / "counts"], tmp_path / "input", tmp_path)
    assert answers == [{"error": None, "counts": tws_job.truth()}]
    # What it was made from is as it was.
    assert verify(open_savepoint(one).tree("counts"), depth="full").restorable[-1] == savepoint.queries["counts"].batch
