"""Planning a start from a checkpoint that Spark wrote elsewhere; a real one, on a real ZooKeeper."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.working_records import readable
from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore import directory_plan as adopting
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_restore
from airflow_provider_ha.checkpoints.sinks.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.driver.checkpointing.start_point import check_adopted
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    HaError,
    JobStateError,
    RestoreRefusedError,
    StorageUnavailableError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import plan_for, restore_job
from airflow_provider_ha.jobs.submit.submit_request import submit_job
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.spark.recorded_job import FILES, MORE, QUERY, assert_exact, continue_query, copy_live


pytestmark = pytest.mark.timeout(300)
LAST = 13


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """The checkpoint of a query that was killed between its sink and its commit."""
    directory = copy_live(tmp_path / "elsewhere") / QUERY
    for path in (directory / "commits").glob(f"*{LAST}*"):
        path.unlink()
    return directory


def plan(job: JobContext, directory: Path | str, **values: Any) -> RestorePlan:
    request = RestoreRequest(job_id=job.job_id, request_id="r", **{"adopt": {QUERY: str(directory)}, **values})
    return plan_for(job, request)[1]


def tree(root: Path) -> dict[str, tuple[bytes, int]]:
    """Return every file with its bytes and the time of its last change."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def test_a_plan_shows_cut_replay_sink_owner_and_verdict_and_changes_nothing(
    copy: JobContext, elsewhere: Path, out: Path
) -> None:
    before = tree(elsewhere)

    made = plan(copy, elsewhere, sinks={QUERY: str(out)})

    query = made.queries[QUERY]
    assert (query.batch, [entry.batch for entry in query.replay]) == (LAST - 1, [LAST])
    assert (query.sink.path, query.sink.max_batch) == (str(out), LAST)
    assert (made.verdict, made.reasons, made.owner) == (Verdict.SAFE, (), Owner.USER)
    assert made.adopted[QUERY].path == str(elsewhere)
    assert tree(elsewhere) == before


def test_a_sink_that_nobody_names_may_be_written_to_again(copy: JobContext, elsewhere: Path) -> None:
    made = plan(copy, elsewhere)

    assert made.verdict is Verdict.DUPLICATES_POSSIBLE
    assert any("its sink is not named" in reason for reason in made.reasons)


def test_a_function_may_have_the_batch_in_flight_unless_it_is_declared_repeatable(
    copy: JobContext, elsewhere: Path
) -> None:
    function = {QUERY: "foreachBatch"}

    assert plan(copy, elsewhere, sinks=function).verdict is Verdict.DUPLICATES_POSSIBLE
    assert plan(copy, elsewhere, sinks=function, repeatable=(QUERY,)).verdict is Verdict.SAFE
    assert plan(copy, elsewhere, sinks=function, options=HaOptions(repeatable=(QUERY,))).verdict is Verdict.SAFE


def test_a_sink_whose_log_is_gone_cannot_be_gone_on_with(copy: JobContext, elsewhere: Path, out: Path) -> None:
    shutil.rmtree(out / "_spark_metadata")

    made = plan(copy, elsewhere, sinks={QUERY: str(out)})

    assert made.verdict is Verdict.IMPOSSIBLE
    assert any(f"the log of the file sink {out} is gone" in reason for reason in made.reasons)


def test_a_job_that_has_checkpoints_does_not_go_back_unasked(source: Job, elsewhere: Path, out: Path) -> None:
    """A DAG that keeps naming the directory would rewind its job with every run."""
    flights = helpers.context(source.config, source.coordinator)

    made = plan(flights, elsewhere, sinks={QUERY: str(out)})

    assert made.verdict is Verdict.DUPLICATES_POSSIBLE
    assert any("gives up its own checkpoints" in reason for reason in made.reasons)


def test_whether_it_is_claimed_is_part_of_the_plan(copy: JobContext, elsewhere: Path) -> None:
    made = plan(copy, elsewhere, claim_mode=ClaimMode.CLAIM)

    assert (made.claim_mode, made.owner) == (ClaimMode.CLAIM, Owner.JOB)


def without_metadata(directory: Path) -> None:
    (directory / "metadata").unlink()


def damaged(directory: Path) -> None:
    for path in directory.glob("state/0/0/*.zip"):
        path.write_bytes(path.read_bytes()[:-20])


def uncommitted(directory: Path) -> None:
    shutil.rmtree(directory / "commits")


def gone(directory: Path) -> None:
    shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (without_metadata, CheckpointCorruptError),
        (damaged, CheckpointCorruptError),
        (uncommitted, CheckpointMissingError),
        (gone, StorageUnavailableError),
    ],
)
def test_what_cannot_be_restored_is_refused_with_its_reason(
    copy: JobContext, elsewhere: Path, damage: Callable[[Path], None], error: type[HaError]
) -> None:
    damage(elsewhere)

    with pytest.raises(error) as caught:
        plan(copy, elsewhere)

    assert caught.value.next_step


def test_a_query_that_goes_on_is_not_adopted(
    copy: JobContext, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def between(directory: Tree, **values: Any) -> Any:
        (elsewhere / "commits" / str(LAST)).write_text("v1\n{}")
        return readable(directory, **values)

    monkeypatch.setattr(adopting, "readable", between)

    with pytest.raises(JobStateError, match="is running"):
        plan(copy, elsewhere)


@pytest.mark.parametrize(
    ("adopt", "sinks", "reason"),
    [
        ({QUERY: "relative/path"}, {}, "no absolute path"),
        ({QUERY: "/data/../etc"}, {}, "no absolute path"),
        ({QUERY: "gs://bucket/checkpoint"}, {}, r"file system \(gs:\) that cannot be read"),
        ({QUERY: "{elsewhere}", "again": "{elsewhere}"}, {}, "have the same query id"),
        ({QUERY: "{elsewhere}"}, {"another": "/out"}, "but not their checkpoints"),
        ({QUERY: "{elsewhere}"}, {QUERY: "parquet"}, "named by its output directory"),
        ({QUERY: "{cluster}"}, {}, "belongs to this cluster"),
    ],
)
def test_names_that_cannot_be_used_are_refused(
    copy: JobContext, elsewhere: Path, adopt: dict[str, str], sinks: dict[str, str], reason: str
) -> None:
    inside = copy.config.work_path / "jobs" / "flights" / "live" / "e1-a" / QUERY
    inside.mkdir(parents=True)
    named = {query: text.format(elsewhere=elsewhere, cluster=inside) for query, text in adopt.items()}

    with pytest.raises(ConfigurationError, match=reason):
        plan(copy, elsewhere, adopt=named, sinks=sinks)


def test_a_job_that_never_ran_starts_from_a_path(copy: JobContext, elsewhere: Path, out: Path, tmp_path: Path) -> None:
    request = helpers.request(
        helpers.script(tmp_path), start_from=str(elsewhere), sinks={QUERY: str(out)}, claim_mode=ClaimMode.CLAIM
    )

    made = submit_job(copy, request)

    start = copy.runs.get(made.run).run.start
    assert (start.kind, start.claim_mode, start.source_id) == (
        StartKind.PATH,
        ClaimMode.CLAIM,
        f"{QUERY}={elsewhere}",
    )
    assert copy.coordinator.find(copy.paths.run_claim(made.run)) is None  # it is claimed when it is done


def test_a_start_that_is_not_safe_is_refused_and_leaves_nothing(
    copy: JobContext, elsewhere: Path, tmp_path: Path
) -> None:
    with pytest.raises(RestoreRefusedError, match="DUPLICATES_POSSIBLE"):
        submit_job(copy, helpers.request(helpers.script(tmp_path), start_from=str(elsewhere)))

    assert copy.coordinator.find(copy.paths.base) is None


def test_a_restore_of_a_job_without_an_application_says_what_to_do(
    copy: JobContext, elsewhere: Path, out: Path
) -> None:
    request = RestoreRequest(job_id="copy", request_id="r", adopt={QUERY: str(elsewhere)}, sinks={QUERY: str(out)})

    with pytest.raises(JobStateError, match="has no run yet") as caught:
        restore_job(copy, request)

    assert "start_from" in caught.value.next_step


def test_a_query_that_went_on_after_the_plan_is_refused_by_the_driver(copy: JobContext, elsewhere: Path) -> None:
    made = plan(copy, elsewhere)
    check_adopted(made, StorageAccess())
    (elsewhere / "commits" / str(LAST)).write_text("v1\n{}")

    with pytest.raises(RestoreRefusedError, match="has changed since the restore was planned"):
        check_adopted(made, StorageAccess())


@pytest.mark.usefixtures("copy")
def test_the_command_plans_from_a_path(spark_ha: Any, elsewhere: Path, out: Path) -> None:
    words = ("job", "restore", "--dry-run", "copy", "--start-from", str(elsewhere), "--sinks", str(out))

    code, shown, said = spark_ha(*words)
    document = json.loads(spark_ha(*words, "--json")[1])

    assert code == 1, "as a restore: only a submission can carry it out"
    assert "with a start from the same directories (start_from)" in said
    assert document["refusal"]["type"] == "JobStateError"
    assert "SAFE: no row is lost" in shown
    assert "the user's: never changed, never removed" in shown
    assert document["adopted"][QUERY]["path"] == str(elsewhere)
    assert document["queries"][QUERY]["replay"] == [LAST]


@pytest.mark.usefixtures("copy")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--start-from", "/a/b", "--start-from", "checkpoint-1"), "Name only directories"),
        (("--start-from", "/a/b", "--source-job", "flights"), "Leave one option out"),
        (("--start-from", "latest", "--start-from", "checkpoint-1"), "Write one word"),
        (("--start-from", "gs://bucket/a"), "not on a file system of this host"),
        (("--start-from", "x=/a/b", "--start-from", "x=/a/c"), "named twice"),
        (("--sinks", "/out"), "names no query"),
    ],
)
def test_options_that_contradict_are_one_sentence(spark_ha: Any, words: tuple[str, ...], reason: str) -> None:
    code, _, error = spark_ha("job", "restore", "copy", *words)

    assert code == 64
    assert reason in error.replace("\n", " ")
    assert "Traceback" not in error


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_spark_goes_on_from_what_was_adopted_and_the_output_is_exact(
    copy: JobContext, elsewhere: Path, out: Path, tmp_path: Path
) -> None:
    before = tree(elsewhere)
    made = plan(copy, elsewhere, sinks={QUERY: str(out)})

    prepare_restore(LinkedWorkArea(tmp_path), "", made, "e1")
    recorded = [entry.model_dump(mode="json") for entry in made.queries[QUERY].replay]
    continue_query([{"checkpoint": tmp_path / "e1" / QUERY, "out": out, "recorded": recorded}], tmp_path)

    assert_exact(out, FILES + MORE)
    assert FileSinkLog(out).max_batch() > LAST
    assert tree(elsewhere) == before
