"""Task-local recovery of jobs on S3 with executors in other processes: what is read from where, and the truth."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.select import Selection
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.metadata_log import NEVER
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.runs.submissions import StateRestore
from airflow_provider_ha.jobs.submit.requests import LATEST
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import ProofOptions
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillVerdict
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.uris import split
from tests.support.releases.installed import BY_VERSION, packages
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.layered_job import CHANGELOG, HDFS_BACKED, PROVIDER, LayeredJob, on_s3
from tests.support.spark.supervised_job import terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
EXECUTORS = "local-cluster[2,1,1024]"
STATE = re.compile(r"/state/\d+/\d+/.*\.(zip|changelog|sst|crc)")
FORMAT_1 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}


@dataclass
class Requests:
    """What the JVMs of jobs have asked the store for. The collector, which is Python, reads versions as well.

    :param read: Paths of the objects.
    :param faults: What happens to which requests.
    """

    read: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def note(self, exchange: Exchange) -> None:
        if "Hadoop" in exchange.headers["User-Agent"]:
            self.read.append(exchange.path)
        exchange.forward()

    def state(self) -> list[str]:
        """Files of state that were read."""
        return [path for path in self.read if STATE.search(path)]


@pytest.fixture
def requests() -> Requests:
    return Requests()


@pytest.fixture
def config(config: HaConfig, s3: S3Access, requests: Requests, tmp_path: Path) -> Iterator[HaConfig]:
    """A cluster whose jobs work in a bucket, behind a proxy that notes their requests."""
    refused = Fault(refuse(403, "AccessDenied"), "PUT", ".zip", times=0)
    requests.faults.append(refused)
    with s3_proxy(s3.endpoint, refused, Fault(requests.note, "GET", times=FOR_EVER)) as proxied:
        found = on_s3(config, s3, tmp_path)
        yield found.model_copy(update={"s3": s3.options(proxied)})


@pytest.fixture
def job(client: HaClient, tmp_path: Path) -> LayeredJob:
    """The gated job with copies, its executors in other processes; it is not submitted yet."""
    made = LayeredJob(client, Stream(tmp_path), ("windows",), master=EXECUTORS)
    made.options = HaOptions(
        checkpoint_interval=0,
        restart_delay=0,
        restart_in_place=False,
        local_recovery=True,
        local_recovery_dir=str(tmp_path / "copies"),
        metrics_port=0,
    )
    made.conf |= {"spark.executor.memory": "600m", "spark.sql.shuffle.partitions": "4"}
    return made


def lose_and_recover(job: LayeredJob, between: Callable[[], None] = lambda: None) -> None:
    """Read three files, kill the driver with its executors, and read one more file."""
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    job.kill()
    between()
    job.recover()
    job.stream.feed(1)
    job.await_read(2)


def restore_of(job: LayeredJob) -> StateRestore:
    """Return the report of the newest driver's restore, once it is complete."""

    def report() -> StateRestore | None:
        status = job.job.snapshot().status
        query = status.queries.get("windows") if status is not None and status.times.first_commit_seconds else None
        return query.state_restore if query is not None else None

    found = wait_until(report, timeout=PATIENCE, what="the report")
    assert found is not None
    return found


def metric(job: LayeredJob, name: str) -> float:
    """Return a metric of the leader."""
    status = job.job.snapshot().status
    assert status is not None
    with urllib.request.urlopen(f"http://{status.metrics}/metrics", timeout=30) as answer:
        found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def copies(tmp_path: Path) -> list[Path]:
    """Return all copies."""
    return [path for path in (tmp_path / "copies" / "v1").rglob("*") if path.is_file() and path.suffix != ".note"]


def told(job: LayeredJob) -> list[StateRestore]:
    """Return the reports of all attempts of the run, oldest first, by its history."""
    history = read_history(job.client.coordinator, job.client.paths.job(job.job_id))
    return [attempt.state_restores["windows"] for attempt in history.runs[0].attempts]


@pytest.mark.parametrize(
    ("conf", "release"),
    [
        pytest.param({}, None, id="tables"),
        pytest.param(CHANGELOG, None, id="changelog"),
        pytest.param({}, "4.3.0", id="4.3", marks=pytest.mark.hours),
    ],
)
def test_a_returning_task_reads_no_state_from_the_store(
    job: LayeredJob, requests: Requests, conf: dict[str, str], release: str | None
) -> None:
    job.conf |= conf
    if release is not None:
        job.engine_options = {"spark_home": f"{packages(BY_VERSION[release])}/pyspark"}

    lose_and_recover(job, between=requests.read.clear)

    assert requests.read
    assert requests.state() == []
    report = restore_of(job)
    assert (report.store_files, report.store_bytes, report.off) == (0, 0, "")
    assert min(report.copy_files, report.copy_bytes) > 0
    assert min(metric(job, f"spark_ha_state_copies_{unit}_total") for unit in ("bytes", "seconds")) > 0
    terminate_and_compare(job, 4)
    assert [each.copy_files > 0 for each in told(job)] == [False, True]


def flip(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-1] + b"!")


def cut(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-1])


def remove_note(copy: Path) -> None:
    copy.with_name(copy.name + ".note").unlink()


def fill_with_noise(copy: Path) -> None:
    copy.write_bytes(os.urandom(copy.stat().st_size))


def stay(_: Path) -> None:
    """Leave it."""


@pytest.mark.parametrize(
    "damages",
    [
        pytest.param((flip,), marks=pytest.mark.hours),
        pytest.param((cut, remove_note), marks=pytest.mark.hours),
        (fill_with_noise, stay, flip, remove_note),
    ],
)
def test_damaged_copies_change_nothing(
    job: LayeredJob, requests: Requests, damages: tuple[Callable[[Path], None], ...], tmp_path: Path
) -> None:
    """Each copy in turn gets the next damage; what was not damaged is read."""

    def damage() -> None:
        for copy, how in zip(copies(tmp_path), itertools.cycle(damages), strict=False):
            how(copy)
        requests.read.clear()

    lose_and_recover(job, between=damage)

    report = restore_of(job)
    assert requests.state()
    assert report.store_files > 0
    assert (report.copy_files > 0) is (stay in damages)
    terminate_and_compare(job, 4)


@pytest.mark.hours
def test_copies_of_an_earlier_batch_change_nothing(job: LayeredJob, tmp_path: Path) -> None:
    """As after a disk was put back from a backup."""
    place, earlier = tmp_path / "copies", tmp_path / "earlier"
    job.stream.feed(1)
    job.submit()
    job.await_read(1)
    shutil.copytree(place, earlier)
    job.stream.feed(2)
    job.await_read(1)
    job.kill()
    shutil.rmtree(place)
    earlier.rename(place)

    job.recover()
    job.stream.feed(1)
    job.await_read(2)

    assert restore_of(job).store_files > 0
    terminate_and_compare(job, 4)


@pytest.mark.hours
def test_each_state_file_of_a_checkpoint_has_an_equal_copy(job: LayeredJob, tmp_path: Path) -> None:
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    job.await_published(1)
    job.kill()
    tree = job.tree(1)
    assert tree is not None
    query = tree / "windows"
    needed = closure(query, job.progress(1).committed, with_planned=True)
    stored = {Path(name).name: query.read(name) for name in needed if re.search(r"^state/0/.*\.(zip|sst)$", name)}

    local = {copy.name: copy.read_bytes() for copy in copies(tmp_path)}

    assert any(name.endswith(".sst") for name in stored)
    assert {name: local.get(name) for name in stored} == stored


@pytest.mark.hours
def test_a_copy_hides_no_damage_of_its_primary(job: LayeredJob, tmp_path: Path) -> None:
    job.master = "local[2]"
    job.options = job.options.model_copy(update={"retained_checkpoints": 10})
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    job.await_published(1)
    job.stop("suspend")
    job.await_result()
    newest = max(each.number for each in job.job.checkpoints.list())
    versions = [file for file in job.files.list(f"{job.key(1)}/windows/state/") if file.key.endswith(".zip")]
    damaged = max(versions, key=lambda file: int(Path(file.key).name.partition("_")[0]))
    job.files.write(damaged.key, job.files.read(damaged.key)[:-1])
    beside = [copy for copy in copies(tmp_path) if copy.name == Path(damaged.key).name]

    with_copies = judged(job)
    (tmp_path / "copies").rename(tmp_path / "elsewhere")
    without = judged(job)
    (tmp_path / "elsewhere").rename(tmp_path / "copies")

    assert beside, "its copy is whole"
    assert with_copies == without
    selection, plan, drilled = with_copies
    rejected = {each.number: each.file for each in selection.candidates if not each.accepted}
    assert str(rejected[newest]).endswith(Path(damaged.key).name)
    assert plan.source_id != str(newest)
    assert plan.verdict is Verdict.SAFE
    assert (drilled.verdict, drilled.source) == (DrillVerdict.FAILED, f"checkpoint-{newest}")
    assert Path(damaged.key).name in drilled.reasons[0]
    assert drilled_from(job, f"checkpoint-{plan.source_id}").verdict is DrillVerdict.PASSED
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id()))
    assert job.run.run.start.source_id == plan.source_id
    job.stream.feed(1)
    job.await_read(2)
    terminate_and_compare(job, 4)


def judged(job: LayeredJob) -> tuple[Selection, RestorePlan, Drill]:
    """Verify the checkpoints, plan a restore, and drill the newest checkpoint, without what differs each time."""
    plan = job.job.plan_restore(RestoreRequest(job_id=job.job_id, request_id=new_id()))
    plan = plan.model_copy(update={"age_seconds": 0, "created_at": NEVER})
    drilled = drilled_from(job, LATEST)
    timeless = {"age_seconds": 0, "seconds": {}, "total_seconds": 0, "started_at": NEVER, "drill_id": ""}
    return job.job.select(), plan, drilled.model_copy(update=timeless)


def drilled_from(job: LayeredJob, start_from: str) -> Drill:
    """Drill the job."""
    options = ProofOptions(heap="512m", deadline=600.0)
    request = DrillRequest(drill_id=new_id(), requested_by="test", start_from=start_from, options=options)
    return drill(job.client.context(job.job_id), request)


@pytest.mark.hours
def test_copies_of_another_job_change_nothing(job: LayeredJob, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    other = replace(job, stream=Stream(elsewhere, keys=("c", "d")), job_id="other")
    for each in (other, job):
        each.stream.feed(3)
        each.submit()
        each.await_read(1)
        each.kill()
    foreign, own = (partitions_of(each, tmp_path) for each in (other, job))
    for theirs, ours in zip(foreign, own, strict=True):
        shutil.rmtree(ours)
        shutil.copytree(theirs, ours)

    job.recover()
    job.stream.feed(1)
    job.await_read(2)

    report = restore_of(job)
    assert report.copy_files == 0
    assert report.store_files > 0
    terminate_and_compare(job, 4)


def partitions_of(job: LayeredJob, tmp_path: Path) -> list[Path]:
    """Return the directories of the copies of a job's partitions."""
    return sorted((tmp_path / "copies").glob(f"v1/**/jobs/{job.job_id}/live/*/windows/state/0/*/"))


@pytest.mark.hours
def test_half_of_the_copies_save_half_of_the_requests(job: LayeredJob, tmp_path: Path) -> None:
    def remove() -> None:
        for copy in copies(tmp_path)[::2]:
            copy.unlink()

    lose_and_recover(job, between=remove)

    report = restore_of(job)
    assert min(report.copy_files, report.store_files) > 0
    terminate_and_compare(job, 4)


@pytest.mark.hours
def test_a_host_without_copies_reads_the_store(job: LayeredJob, tmp_path: Path) -> None:
    lose_and_recover(job, between=lambda: shutil.rmtree(tmp_path / "copies"))

    report = restore_of(job)
    assert report.copy_files == 0
    assert report.store_files > 0
    terminate_and_compare(job, 4)
    assert copies(tmp_path)


@pytest.mark.hours
@pytest.mark.parametrize("conf", [FORMAT_1, {PROVIDER: HDFS_BACKED}], ids=["format 1", "hdfs-backed"])
def test_state_with_names_that_change_has_no_copies_and_says_so(
    job: LayeredJob, conf: dict[str, str], tmp_path: Path
) -> None:
    job.conf |= conf

    lose_and_recover(job)

    assert "its state has names that change" in restore_of(job).off
    assert [copy for copy in copies(tmp_path) if copy.suffix != ".sst"] == [], "only tables have unique names"
    terminate_and_compare(job, 4)


def test_a_store_that_refuses_a_version_fails_the_batch_without_a_copy(
    job: LayeredJob, requests: Requests, tmp_path: Path
) -> None:
    job.stream.feed(1)
    requests.faults[0].times = FOR_EVER
    job.submit()
    job.await_exit(1)

    assert requests.faults[0].hits > 0
    assert [copy.name for copy in copies(tmp_path) if copy.suffix == ".zip"] == []


@pytest.mark.hours
def test_the_state_of_a_processor_in_python_has_copies(job: LayeredJob, requests: Requests, tmp_path: Path) -> None:
    job.queries = ("counts",)
    job.stream.feed(3)
    job.submit_script(APPS / "transformed.py", [str(job.stream.source), str(job.stream.output)])
    job.await_read(1)
    job.kill()
    requests.read.clear()

    job.recover()
    job.stream.feed(1)
    job.await_read(2)

    assert requests.state() == []
    lines = [json.loads(line) for path in job.stream.sink_files() for line in path.read_text().splitlines()]
    assert {key: max(line["n"] for line in lines if line["key"] == key) for key in ("a", "b")} == {"a": 12, "b": 12}
    assert len(lines) == 8, "one line for each key and batch"


@pytest.mark.hours
def test_without_the_option_there_is_no_trace(job: LayeredJob, tmp_path: Path) -> None:
    job.options = job.options.model_copy(update={"local_recovery": False})

    lose_and_recover(job)

    status = job.job.snapshot().status
    assert status is not None
    assert status.queries["windows"].state_restore is None
    assert not (tmp_path / "copies").exists()
    terminate_and_compare(job, 4)


@pytest.mark.hours
def test_each_partition_keeps_two_versions_and_the_tables_that_they_name(job: LayeredJob, tmp_path: Path) -> None:
    job.master = "local[2]"
    job.conf["spark.sql.shuffle.partitions"] = "2"
    job.stream.feed(50)
    job.submit()
    job.await_read(1)
    for _ in range(3):
        job.stream.feed(50)
        job.await_read(1)
    terminate_and_compare(job, 200)

    partitions: dict[str, list[Path]] = {}  # the end has worked in a fork: the directories of a job are one
    for copy in copies(tmp_path):
        partition = copy.parent.parent if copy.parent.name == "SSTs" else copy.parent
        partitions.setdefault(partition.name, []).append(copy)
    assert len(partitions) == 2
    for held in partitions.values():
        versions = [copy for copy in held if copy.suffix == ".zip"]
        assert 1 <= len(versions) <= 2, versions  # the committed one and the next
        named = {name for version in versions for name in tables(version)}
        assert {copy.name for copy in held if copy.suffix == ".sst"} == named


def tables(version: Path) -> set[str]:
    """Return the tables that a version names."""
    with zipfile.ZipFile(version) as content:
        metadata = json.loads(content.read("metadata").partition(b"\n")[2])
    return {table["dfsSstFileName"] for table in metadata["sstFiles"]}


def test_a_standby_driver_without_the_leader_s_disk_takes_over_without_state_from_the_store(
    job: LayeredJob, requests: Requests, tmp_path: Path
) -> None:
    job.master = "local[2]"
    job.options = job.options.model_copy(update={"standby_drivers": 1, "restart_in_place": True})
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    shutil.rmtree(tmp_path / "copies" / "v1")  # the leader's host is another one, and has them
    job.await_standby()
    wait_until(lambda: "were copied to this host" in standby_log(job), timeout=PATIENCE, what="the refresh")
    requests.read.clear()

    job.jvm().kill()
    job.await_takeover(2)
    job.stream.feed(1)
    job.await_read(2)

    report = restore_of(job)
    assert (report.store_files, report.off) == (0, "")
    assert report.copy_files > 0
    assert requests.state() == []
    terminate_and_compare(job, 4)


def standby_log(job: LayeredJob) -> str:
    """Return the log of the standby driver that is ready."""
    return Path(split(job.await_standby().log).path).read_text(encoding="utf-8")
