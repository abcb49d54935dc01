"""Adopting a checkpoint that Spark wrote on S3 or HDFS: planned, looked at again by the driver, brought in, gone on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_restore
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.driver.checkpointing.start_point import check_adopted
from airflow_provider_ha.errors import ConfigurationError, RestoreRefusedError, StorageUnavailableError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import plan_for
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.clusters import submit_helpers as helpers
from tests.support.hdfs.hdfs_server import hdfs_server
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.recorded_job import FILES, MORE, QUERY, assert_exact, continue_query, recorded_job


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
LAST = 13
TARGET = JobKeys("copy").working_directory(1, "x")


class Elsewhere:
    """A place in a store in which a query was killed between its sink and its commit.

    :param uri: Of the place.
    :param reach: How it is reached.
    """

    def __init__(self, uri: str, reach: StorageAccess) -> None:
        self.uri, self.reach = uri, reach
        self.files: ObjectStore = reach.files(uri)
        live = recorded_job() / "live" / QUERY
        for path in sorted(path for path in live.rglob("*") if path.is_file()):
            name = str(path.relative_to(live))
            if not name.startswith("commits/") or str(LAST) not in name:
                self.files.write(name, path.read_bytes())

    def content(self) -> dict[str, str]:
        return {file.key: f"{file.size} {file.mtime} {file.etag}" for file in self.files.list("")}

    def commit(self) -> None:
        """Commit the batch that was in flight."""
        self.files.write(f"commits/{LAST}", b"v1\n{}")


@pytest.fixture(scope="module")
def on_s3() -> Iterator[Callable[[], Elsewhere]]:
    with real_server() as access:
        yield lambda: Elsewhere(f"s3://{access.new_bucket()}/jobs/{QUERY}", StorageAccess(access.options()))


@pytest.fixture(scope="module")
def on_hdfs() -> Iterator[Callable[[], Elsewhere]]:
    with hdfs_server() as hdfs:
        yield lambda: Elsewhere(f"{hdfs.new_root()}/{QUERY}", StorageAccess(hdfs=hdfs.options()))


@pytest.fixture(params=["on_s3", "on_hdfs"])
def elsewhere(request: pytest.FixtureRequest) -> Elsewhere:
    made: Elsewhere = request.getfixturevalue(request.param)()
    return made


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, elsewhere: Elsewhere) -> JobContext:
    """A job of a cluster whose connection reaches both stores."""
    there = {"s3": elsewhere.reach.s3, "hdfs": elsewhere.reach.hdfs}
    return helpers.context(config.model_copy(update=there), coordinator, job_id="copy")


def plan(job: JobContext, elsewhere: Elsewhere, **values: Any) -> RestorePlan:
    request = RestoreRequest(job_id="copy", request_id="r", **{"adopt": {QUERY: elsewhere.uri}, **values})
    return plan_for(job, request)[1]


def test_a_plan_says_what_goes_on_and_changes_nothing(job: JobContext, elsewhere: Elsewhere, out: Path) -> None:
    before = elsewhere.content()

    made = plan(job, elsewhere, sinks={QUERY: str(out)})

    query = made.queries[QUERY]
    assert (query.batch, [entry.batch for entry in query.replay]) == (LAST - 1, [LAST])
    assert (made.verdict, made.reasons) == (Verdict.SAFE, ())
    assert made.adopted[QUERY].path == elsewhere.uri
    assert elsewhere.content() == before


@pytest.mark.hours
def test_every_spelling_of_the_place_is_the_same_one(job: JobContext, elsewhere: Elsewhere, out: Path) -> None:
    spelled = elsewhere.uri.replace("s3://", "s3a://") + "/"

    made = plan(job, elsewhere, adopt={QUERY: spelled}, sinks={QUERY: str(out)})

    assert made.adopted[QUERY].path == elsewhere.uri


@pytest.mark.hours
@pytest.mark.parametrize("kind", [LinkedWorkArea, LayeredWorkArea])
def test_the_first_epoch_has_its_own_files(
    job: JobContext, elsewhere: Elsewhere, out: Path, tmp_path: Path, kind: type[WorkArea]
) -> None:
    made, before = plan(job, elsewhere, sinks={QUERY: str(out)}), elsewhere.content()
    store = LocalStore(tmp_path / "work", new=True)
    area = LinkedWorkArea(tmp_path) if kind is LinkedWorkArea else LayeredWorkArea(store)
    area.create(TARGET)

    prepare_restore(area, "", made, TARGET, elsewhere.reach)

    for name in ("metadata", f"offsets/{LAST - 1}"):
        elsewhere.files.delete(name)
    directory = area.tree(TARGET) / QUERY
    assert progress(directory) == Progress(LAST - 1, LAST - 1)
    assert LAST - 1 in verify(directory, depth="full").restorable
    assert len(before) > len(elsewhere.content())


def test_a_query_that_went_on_after_the_plan_is_refused_by_the_driver(job: JobContext, elsewhere: Elsewhere) -> None:
    made = plan(job, elsewhere)
    check_adopted(made, elsewhere.reach)
    elsewhere.commit()

    with pytest.raises(RestoreRefusedError, match=f"in {elsewhere.uri} has changed since the restore was planned"):
        check_adopted(made, elsewhere.reach)


@pytest.mark.hours
def test_it_stays_its_owners(job: JobContext, elsewhere: Elsewhere) -> None:
    with pytest.raises(ConfigurationError, match="cannot be claimed") as caught:
        plan(job, elsewhere, claim_mode=ClaimMode.CLAIM)

    assert "NO_CLAIM" in caught.value.next_step


@pytest.mark.hours
def test_a_place_that_holds_nothing_is_named(job: JobContext, elsewhere: Elsewhere) -> None:
    nowhere = f"{elsewhere.uri}-nowhere"

    with pytest.raises(StorageUnavailableError, match=f"checkpoint {nowhere} is not there") as caught:
        plan(job, elsewhere, adopt={QUERY: nowhere})

    assert "the driver also needs access" in caught.value.next_step


def test_a_working_directory_of_the_cluster_is_not_adopted(
    config: HaConfig, coordinator: Coordinator, elsewhere: Elsewhere, tmp_path: Path
) -> None:
    root = elsewhere.uri.rpartition("/")[0]
    own = {
        **config.model_dump(),
        "work_root": root,
        "home_root": f"file://{tmp_path}/home",
        "s3": elsewhere.reach.s3,
        "hdfs": elsewhere.reach.hdfs,
    }
    job = helpers.context(HaConfig.model_validate(own), coordinator, job_id="copy")

    with pytest.raises(ConfigurationError, match="belongs to this cluster"):
        plan(job, elsewhere, adopt={QUERY: f"{root}/{config.cluster_id}/jobs/flights/live/e1-a/{QUERY}"})


def test_wrong_keys_are_named_and_not_told(config: HaConfig, coordinator: Coordinator, s3: S3Access) -> None:
    bucket = s3.new_bucket()
    wrong = s3.options().model_copy(update={"secret_key": S3Access("", "", "wrong-secret").options().secret_key})
    job = helpers.context(config.model_copy(update={"s3": wrong}), coordinator, job_id="copy")

    with pytest.raises(StorageUnavailableError) as caught:
        plan_for(job, RestoreRequest(job_id="copy", request_id="r", adopt={QUERY: f"s3://{bucket}/{QUERY}"}))

    assert "Check the access key, the secret key and the region" in caught.value.next_step
    assert "wrong-secret" not in str(caught.value)


@pytest.mark.hours
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_goes_on_from_what_was_adopted_and_the_output_is_exact(
    job: JobContext, elsewhere: Elsewhere, out: Path, tmp_path: Path
) -> None:
    before = elsewhere.content()
    made = plan(job, elsewhere, sinks={QUERY: str(out)})

    prepare_restore(LinkedWorkArea(tmp_path), "", made, "e1", elsewhere.reach)
    recorded = [entry.model_dump(mode="json") for entry in made.queries[QUERY].replay]
    continue_query([{"checkpoint": tmp_path / "e1" / QUERY, "out": out, "recorded": recorded}], tmp_path)

    assert_exact(out, FILES + MORE)
    assert elsewhere.content() == before


def test_the_command_plans_from_a_bucket(
    config: HaConfig, s3: S3Access, spark_ha: Any, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config.s3 is None
    made = Elsewhere(f"s3://{s3.new_bucket()}/{QUERY}", StorageAccess(s3.options()))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)

    code, shown, _ = spark_ha(
        "job", "restore", "--dry-run", "copy", "--start-from", made.uri, "--sinks", str(out), "--json"
    )

    document = json.loads(shown)
    assert code == 1, "as a restore: only a submission can carry it out"
    assert document["adopted"][QUERY]["path"] == made.uri
    assert (document["verdict"], document["queries"][QUERY]["replay"]) == ("SAFE", [LAST])
