"""Input files on S3 of a managed job: what is replayed has to be there, and what cannot be asked for is not known."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.sources.input_files import MissingInputFiles, look_for, measure
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore import choices
from airflow_provider_ha.jobs.restore.job_restore import plan_for
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.s3.s3_faults import FOR_EVER, Fault, noted, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.recorded_job import QUERY, copy_live, copy_output


pytestmark = pytest.mark.timeout(300)
# The last batch that read a file; the one after it only took the windows that were over.
READ, LAST = 12, 13
KEY = "in/12.json"


@pytest.fixture
def bucket(s3: S3Access, bucket: str) -> str:
    """A bucket with the input of the last batch that read one."""
    s3.client().put_object(Bucket=bucket, Key=KEY, Body=b"{}")
    return bucket


@pytest.fixture
def elsewhere(s3: S3Access, bucket: str, tmp_path: Path) -> Path:
    """The checkpoint of a query whose sink has two batches more than it, the first of them read from S3."""
    directory = copy_live(tmp_path / "elsewhere") / QUERY
    for batch in (READ, LAST):
        for path in (directory / "commits").glob(f"*{batch}*"):
            path.unlink()
    entry = directory / "sources" / "0" / str(READ)
    read = {"path": f"s3a://{bucket}/{KEY}", "timestamp": s3.changed_at(bucket, KEY)}
    version, line = entry.read_text(encoding="utf-8").splitlines()
    entry.write_text("\n".join([version, json.dumps(json.loads(line) | read)]))
    entry.with_name(f".{READ}.crc").unlink()
    return directory


def plan(job: JobContext, s3: S3Access, directory: Path, out: Path, *, endpoint: str | None = None) -> RestorePlan:
    """Plan to go on from a directory, with the options of S3 that the connection has."""
    reached = dataclasses.replace(job, config=job.config.model_copy(update={"s3": s3.options(endpoint)}))
    request = RestoreRequest(
        job_id=job.job_id, request_id="r", adopt={QUERY: str(directory)}, sinks={QUERY: str(copy_output(out))}
    )
    return plan_for(reached, request)[1]


def test_an_existing_input_is_safe_and_only_replayed_inputs_are_requested(
    copy: JobContext, s3: S3Access, elsewhere: Path, tmp_path: Path
) -> None:
    asked: list[str] = []

    with s3_proxy(s3.endpoint, noted(asked, "prefix=in")) as endpoint:
        made = plan(copy, s3, elsewhere, tmp_path / "out", endpoint=endpoint)

    assert (made.verdict, made.unknown) == (Verdict.SAFE, {})
    assert made.queries[QUERY].inputs[0].gone == 0
    assert len(asked) == 1


def test_a_replay_whose_input_is_gone_is_impossible(
    copy: JobContext, s3: S3Access, bucket: str, elsewhere: Path, tmp_path: Path
) -> None:
    s3.client().delete_object(Bucket=bucket, Key=KEY)

    made = plan(copy, s3, elsewhere, tmp_path / "out")

    assert made.verdict is Verdict.IMPOSSIBLE
    assert f"its input s3a://{bucket}/{KEY} is gone" in made.reasons[0]
    assert made.queries[QUERY].inputs[0].gone == 1


def test_a_replay_whose_input_was_replaced_is_impossible(
    copy: JobContext, s3: S3Access, bucket: str, elsewhere: Path, tmp_path: Path
) -> None:
    first = s3.changed_at(bucket, KEY)

    def replaced() -> bool:
        s3.client().put_object(Bucket=bucket, Key=KEY, Body=b"[]")
        return s3.changed_at(bucket, KEY) != first

    wait_until(replaced, timeout=10, what="another time of change")

    made = plan(copy, s3, elsewhere, tmp_path / "out")

    assert made.verdict is Verdict.IMPOSSIBLE
    assert f"its input s3a://{bucket}/{KEY} was replaced since" in made.reasons[0]


def test_an_input_that_cannot_be_asked_for_is_not_known_to_be_there(
    copy: JobContext, s3: S3Access, elsewhere: Path, tmp_path: Path
) -> None:
    refused = Fault(refuse(403, "AccessDenied"), "GET", "prefix=in", times=FOR_EVER)

    with s3_proxy(s3.endpoint, refused) as endpoint:
        made = plan(copy, s3, elsewhere, tmp_path / "out", endpoint=endpoint)

    assert made.unknown[QUERY]
    assert made.queries[QUERY].inputs[0].gone is None


@pytest.mark.parametrize(("job_id", "looked"), [("flights", True), ("copy", False)])
def test_a_start_without_replayed_batches_sends_no_request(
    job_id: str, looked: bool, copy: JobContext, source: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that goes on in another output plans the batches after the cut afresh."""
    asked: list[int] = []

    def noting(entries: Sequence[BatchEntry], reach: StorageAccess | None) -> MissingInputFiles:
        asked.append(len(entries))
        return look_for(entries, reach)

    monkeypatch.setattr(choices, "look_for", noting)
    job = dataclasses.replace(copy, job_id=job_id)

    plan_for(job, RestoreRequest(job_id=job_id, request_id="r", source_job="flights"))

    assert bool(asked) is looked


def test_the_files_of_a_batch_are_measured_by_one_listing(s3: S3Access, bucket: str) -> None:
    keys = [f"in/day=1/{number}.json" for number in range(3)]
    for key in keys:
        s3.client().put_object(Bucket=bucket, Key=key, Body=b"{}")
    seen = [(key, s3.changed_at(bucket, key)) for key in keys] + [(KEY, 1), ("in/gone.json", 1)]
    lines = tuple(json.dumps({"path": f"s3a://{bucket}/{key}", "timestamp": time}) for key, time in seen)
    asked: list[str] = []

    with s3_proxy(s3.endpoint, noted(asked, "prefix=in")) as endpoint:
        found = measure(BatchEntry(batch=0, offsets="", sources={"0": lines}), StorageAccess(s3=s3.options(endpoint)))

    assert found == {"0": (2, 2, 2, None, None)}
    assert len(asked) == 1
