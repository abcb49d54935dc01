"""Drills of a job whose savepoints and checkpoints lie in a store: Spark gets a copy on this host."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.reader_leases import active
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.submit.preparation import upload
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import PROOFS, ProofOptions
from airflow_provider_ha.jobs.verification.verification_records import DrillStore, DrillVerdict
from airflow_provider_ha.storage.blobs import put_blob
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.layered_files import SECOND
from tests.support.checkpoints.portable_helpers import QUERY as WORDS
from tests.support.checkpoints.portable_helpers import checkpoint
from tests.support.checkpoints.recorded_in_store import files_of, take_over
from tests.support.spark.recorded_job import QUERY, recorded_job


pytestmark = pytest.mark.timeout(300)
APPLICATION = Path(__file__).resolve().parents[2] / "apps" / "stats.py"
BATCH = 13
KEYS, OPEN_WINDOWS = 3, 1  # after that batch, which closed the others
LOAD_ONLY = ProofOptions(start=False)
STARTED = ProofOptions(heap="512m", deadline=600.0)


def ask(options: ProofOptions = LOAD_ONLY, **values: Any) -> DrillRequest:
    return DrillRequest(drill_id="weekly", requested_by="test", options=options, **values)


def content(config: HaConfig) -> dict[str, str]:
    """Return the versions of all files below the work root."""
    return {file.key: f"{file.size} {file.mtime} {file.etag}" for file in files_of(config).list("")}


@pytest.fixture
def words(job: Job, area: WorkArea, tmp_path: Path) -> Job:
    """The job with a query without state, and savepoint ``s1`` of its batch 2."""
    put_blob(job.objects, b"of a submission")  # which makes the storage root
    live = area.create(SECOND)
    written = checkpoint(tmp_path / "written")
    for path in (path for path in written.rglob("*") if path.is_file()):
        live.write(f"{WORDS}/{path.relative_to(written)}", path.read_bytes())
    request = dataclasses.replace(job.request("s1", 2), cut={WORDS: 2}, graph="0" * 64)
    job.savepoints.create(job.leadership.commit, request, area.tree(SECOND))
    return job


@pytest.fixture
def stats(job: Job, context: JobContext, area: WorkArea, tmp_path: Path) -> Job:
    """The job with a query with state: checkpoint 1 in the directory of its second epoch, and savepoint ``s1``."""
    application = JobSpec(
        job_id=context.job_id,
        request_id="made",
        application=str(APPLICATION),
        arguments=[str(recorded_job() / "input"), str(tmp_path / "out")],
        conf={"spark.sql.session.timeZone": "UTC"},
    )
    graph = context.graphs.write_graph(upload(context, application)).sha256
    take_over(area)
    made = job.checkpoint(1, BATCH, pin=False).model_copy(update={"directory": SECOND, "graph": graph})
    job.checkpoints.add(job.leadership, made)
    request = dataclasses.replace(job.request("s1", BATCH), graph=graph)
    job.savepoints.create(job.leadership.commit, request, area.tree(SECOND))
    return job


def test_the_newest_savepoint_is_drilled_and_the_job_does_not_notice(words: Job, context: JobContext) -> None:
    before = content(words.config)

    done = drill(context, ask())

    assert (done.verdict, done.reasons, done.source, done.cut) == (DrillVerdict.PASSED, (), "savepoint-s1", {WORDS: 2})
    assert done.size > 0
    # On files of this host the records lie below the same root.
    assert {name: file for name, file in content(words.config).items() if "/drills/" not in name} == before
    assert list((words.config.home_path / PROOFS).iterdir()) == []
    assert active(words.coordinator, words.paths, "savepoint-s1", SystemClock()) == []
    assert DrillStore(context.store, context.keys).list() == ([done], [])


def test_a_savepoint_with_a_changed_byte_fails_by_its_digest(words: Job, context: JobContext) -> None:
    files, name = files_of(words.config), f"{words.keys.savepoint('s1')}/{WORDS}/metadata"
    files.write(name, files.read(name).replace(b"9b2d", b"9b2e"))

    done = drill(context, ask())

    assert done.verdict is DrillVerdict.FAILED
    assert done.reasons == (f"{WORDS}/metadata: its digest is not the one in the manifest",)


def test_a_checkpoint_in_the_directory_of_an_epoch_is_drilled(words: Job, context: JobContext) -> None:
    made = words.checkpoint(1, 2, pin=False)
    part = made.queries.popitem()[1]
    words.checkpoints.add(words.leadership, made.model_copy(update={"directory": SECOND, "queries": {WORDS: part}}))

    done = drill(context, ask(start_from="latest"))

    assert (done.verdict, done.source, done.cut) == (DrillVerdict.PASSED, "checkpoint-1", {WORDS: 2})


def test_the_command_drills_and_lists(words: Job, spark_ha: Any) -> None:
    drilled = spark_ha("savepoint", "drill", words.paths.job_id, "--load-only")
    listed = spark_ha("savepoint", "drills", words.paths.job_id)

    assert (drilled[0], listed[0]) == (0, 0)
    assert "savepoint-s1" in listed[1]


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("start_from", ["savepoint", pytest.param("latest", marks=pytest.mark.hours)])
def test_spark_goes_on_from_what_lies_in_the_store(
    stats: Job, context: JobContext, tmp_path: Path, start_from: str
) -> None:
    before = content(stats.config)

    done = drill(context, ask(STARTED, start_from=start_from))

    assert (done.verdict, done.reasons) == (DrillVerdict.PASSED, ())
    query = done.queries[QUERY]
    assert (query.batch, query.loaded, query.started) == (BATCH, "proven", "proven")
    assert query.state_rows == OPEN_WINDOWS * KEYS
    assert not (tmp_path / "out").exists()
    assert {name: file for name, file in content(stats.config).items() if "/drills/" not in name} == before
