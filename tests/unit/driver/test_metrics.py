"""Metrics of a driver, and figures in Spark's JSON of a trigger."""

from __future__ import annotations

import json
import socket
import urllib.request
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from airflow_provider_ha.driver.figures import (
    CheckpointFigures,
    NewestCheckpoint,
    QueryTrigger,
    ReportedTriggers,
    read_trigger,
)
from airflow_provider_ha.driver.jvm.state_restores import CopyCost
from airflow_provider_ha.driver.prometheus import DriverMetrics, MetricSources, serve
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.metric_names import METRICS, Emitter, MetricKind
from airflow_provider_ha.jobs.model import JobState, StandbyCount
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel
from airflow_provider_ha.jobs.runs.submissions import StartTimes, StateRestore
from tests.support.clusters.jobs_helpers import a_run, a_start, a_submission, an_exit
from tests.support.fake.clock import VirtualClock


EVERYWHERE = "0.0.0.0"  # noqa: S104  # nothing listens in the test
COMMON = {"cluster": "prod", "job_id": "flights"}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Stage:
    """One driver that has taken over from a killed one, three seconds after its last heartbeat."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.triggers = ReportedTriggers()
        self.checkpoints = CheckpointFigures()
        self.state = JobState.RUNNING
        self.lease_left: float | None = 7.5
        self.standbys: StandbyCount | None = StandbyCount(requested=2, ready=1)
        now = self.clock.now()
        self.living: tuple[Standby, ...] = (
            Standby(standby_id="bb", level=StandbyLevel.SESSION, since=now - timedelta(seconds=30), host="h", pid=1),
        )
        self.killed = SubmissionView(
            submission=a_submission(1).model_copy(update={"created_at": now - timedelta(hours=1)}),
            started=a_start(),
            exit=an_exit().model_copy(update={"at": now - timedelta(seconds=10)}),
        )
        own = SubmissionView(submission=a_submission(2).model_copy(update={"created_at": now - timedelta(seconds=8)}))
        self.metrics = DriverMetrics(
            MetricSources(
                cluster="prod",
                job_id="flights",
                epoch=2,
                led_at=now - timedelta(seconds=5),
                state=lambda: self.state,
                lease_left=lambda: self.lease_left,
                standbys=lambda: self.standbys,
                living=lambda: self.living,
                losses=lambda: 2,
                triggers=self.triggers,
                checkpoints=self.checkpoints,
                run=RunView(run=a_run(), submissions=(self.killed, own)),
                attempt=2,
                alive_at=now - timedelta(seconds=13),
                class_archive="class_archive is off",
                restores=lambda: {"hourly": StateRestore(copy_bytes=3, store_bytes=4, seconds=0.5)},
                copies=lambda: CopyCost(size=5, seconds=0.25),
                times=lambda: StartTimes(
                    launched_at=now - timedelta(seconds=9),
                    bound_at=now - timedelta(seconds=4),
                    started_at=now - timedelta(seconds=2),
                    committed_at=now + timedelta(seconds=0.25),
                ),
                options=HaOptions(restart_attempts=5),
                clock=self.clock,
            )
        )

    def batch(self, number: int, *, seconds: float = 2.0, rows: int = 60, lag: int | None = 4) -> None:
        """Have a query report a batch that is over now."""
        at = self.clock.now() - timedelta(seconds=seconds)
        phases = {"triggerExecution": seconds, "addBatch": seconds / 2}
        trigger = QueryTrigger(at, number, True, phases, input_rows=rows, input_rate=6.0, processed_rate=30.0, lag=lag)
        self.triggers.note("hourly", trigger)
        self.metrics.note("hourly", trigger)

    def served(self, **options: Any) -> str:
        """Serve the metrics; return where."""
        return serve(self.metrics, HaOptions(metrics_port=options.pop("metrics_port", 0), **options))


@pytest.fixture
def stage() -> Stage:
    return Stage()


def scrape(place: str) -> Samples:
    """Read the metrics as Prometheus does."""
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset((COMMON | labels).items())]


def test_a_scrape_has_every_metric_of_the_list_and_no_other_one(stage: Stage) -> None:
    stage.batch(7)
    stage.checkpoints.found(NewestCheckpoint(3, stage.clock.now(), 1000))
    stage.checkpoints.took(0.2)

    samples = scrape(stage.served())

    listed = {metric.name: metric for metric in METRICS if Emitter.DRIVER in metric.emitters}
    parts = ("_bucket", "_sum", "_count", "_created")
    names = {
        f"{metric.name}{part}"
        for metric in listed.values()
        for part in (parts if metric.kind is MetricKind.HISTOGRAM else ("",))
    }
    assert {name for name, _ in samples} == names
    for name, labels in samples:
        metric = next(metric for each, metric in listed.items() if name == each or name.startswith(f"{each}_"))
        assert {label for label, _ in labels} - {"le"} == set(metric.label_names)


def test_the_figures_of_a_batch_are_those_of_spark(stage: Stage) -> None:
    stage.batch(7, seconds=1.0, rows=40)
    stage.batch(8, seconds=3.0, rows=60)
    stage.clock.milliseconds += 9_000

    samples = scrape(stage.served())

    assert value(samples, "spark_ha_batch_number", query="hourly") == 8
    assert value(samples, "spark_ha_input_rows_total", query="hourly") == 100
    assert value(samples, "spark_ha_lag_rows", query="hourly") == 4
    assert value(samples, "spark_ha_commit_age_seconds", query="hourly") == 9.0
    assert value(samples, "spark_ha_batch_phase_seconds", query="hourly", phase="addBatch") == 1.5
    assert value(samples, "spark_ha_batch_duration_seconds_sum", query="hourly") == 4.0
    assert value(samples, "spark_ha_batch_duration_seconds_bucket", query="hourly", le="1.0") == 1


def test_a_source_without_a_reported_lag_has_none(stage: Stage) -> None:
    stage.batch(7, lag=None)

    samples = scrape(stage.served())

    assert not [name for name, _ in samples if name == "spark_ha_lag_rows"]


def test_a_recovery_is_told_with_its_reason_and_its_phases(stage: Stage) -> None:
    stage.batch(7)

    samples = scrape(stage.served())

    assert value(samples, "spark_ha_restarts_day", reason="killed") == 1
    assert value(samples, "spark_ha_restarts_day", reason="application") == 0
    assert {
        phase: value(samples, "spark_ha_recovery_seconds", phase=phase)
        for phase in ("detect", "submit", "lead", "bind", "start", "commit", "total")
    } == {"detect": 3.0, "submit": 2.0, "lead": 3.0, "bind": 1.0, "start": 2.0, "commit": 2.0, "total": 13.0}
    assert value(samples, "spark_ha_restart_attempts_limit") == 5


def test_a_start_is_told_with_its_time_and_its_class_archive(stage: Stage) -> None:
    samples = scrape(stage.served())

    assert value(samples, "spark_ha_first_commit_seconds") == 9.25
    assert value(samples, "spark_ha_class_archive", reason="class_archive is off") == 0


def test_the_state_that_tasks_have_read_is_told_by_its_place(stage: Stage) -> None:
    samples = scrape(stage.served())

    places = [
        value(samples, "spark_ha_state_restore_bytes", query="hourly", place=each) for each in ("copies", "store")
    ]
    assert places == [3, 4]
    assert value(samples, "spark_ha_state_restore_seconds", query="hourly") == 0.5


def test_the_cost_of_copies_of_state_is_told(stage: Stage) -> None:
    samples = scrape(stage.served())

    assert value(samples, "spark_ha_state_copies_bytes_total") == 5
    assert value(samples, "spark_ha_state_copies_seconds_total") == 0.25


def test_the_first_driver_of_a_run_has_recovered_nothing(stage: Stage) -> None:
    first = stage.metrics._observed
    alone = RunView(run=first.run.run, submissions=first.run.submissions[1:])
    object.__setattr__(first, "run", alone)

    samples = scrape(stage.served())

    assert not [name for name, _ in samples if name == "spark_ha_recovery_seconds"]


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.STALLED])
def test_exactly_one_state_is_the_state_of_the_job(stage: Stage, state: JobState) -> None:
    stage.state = state

    samples = scrape(stage.served())

    assert {each: value(samples, "spark_ha_job_state", state=each.value) for each in JobState} == {
        each: float(each is state) for each in JobState
    }
    assert value(samples, "spark_ha_job_stalled") == float(state is JobState.STALLED)


def test_the_checkpoint_of_an_earlier_driver_counts_until_there_is_a_new_one(stage: Stage) -> None:
    stage.checkpoints.found(NewestCheckpoint(3, stage.clock.now() - timedelta(seconds=40)))
    stage.checkpoints.found(NewestCheckpoint(2, stage.clock.now() - timedelta(seconds=90)))

    samples = scrape(stage.served())

    assert value(samples, "spark_ha_checkpoint_number") == 3
    assert value(samples, "spark_ha_checkpoint_age_seconds") == 40.0
    assert not [name for name, _ in samples if name == "spark_ha_checkpoint_size_bytes"]


def test_checkpoints_that_fail_are_counted(stage: Stage) -> None:
    with pytest.raises(StorageUnavailableError), stage.checkpoints.attempt():
        raise StorageUnavailableError("no storage")

    assert value(scrape(stage.served()), "spark_ha_checkpoint_failures_total") == 1


def test_the_margin_of_the_lease_is_told_until_the_leadership_is_released(stage: Stage) -> None:
    led = scrape(stage.served())
    stage.lease_left = None

    released = scrape(stage.served())

    assert value(led, "spark_ha_lease_margin_seconds") == 7.5
    assert not [name for name, _ in released if name == "spark_ha_lease_margin_seconds"]


def test_metrics_are_off_unless_the_job_asks_for_them() -> None:
    registry: Any = CollectorRegistry()

    assert serve(registry, HaOptions()) == ""


def test_a_port_that_is_taken_is_replaced_by_a_free_one(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        place = stage.served(metrics_port=taken)

    assert place.startswith("127.0.0.1:")
    assert not place.endswith(f":{taken}")
    assert f"port {taken}" in caplog.text
    assert scrape(place)


def test_an_address_that_is_not_of_this_host_leaves_the_job_without_metrics(stage: Stage) -> None:
    assert stage.served(metrics_address="192.0.2.1") == ""


def test_a_driver_that_listens_everywhere_is_found_under_the_name_of_its_host(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def listen(_port: int, *, addr: str, **_: Any) -> tuple[Any, None]:
        calls.append(addr)
        return type("Server", (), {"server_port": 9400}), None

    monkeypatch.setattr("airflow_provider_ha.driver.prometheus.start_http_server", listen)

    assert stage.served(metrics_address=EVERYWHERE) == f"{socket.gethostname()}:9400"
    assert calls == [EVERYWHERE]


def test_moments_of_hosts_whose_clocks_differ_give_no_negative_time(stage: Stage) -> None:
    ahead = stage.clock.now() + timedelta(hours=1)
    stage.checkpoints.found(NewestCheckpoint(3, ahead))

    assert value(scrape(stage.served()), "spark_ha_checkpoint_age_seconds") == 0.0


# As Spark 4.2 prints it, shortened: a batch, and a trigger without data.
BATCH: dict[str, Any] = {
    "timestamp": "2026-11-24T15:53:38.035Z",
    "batchId": 7,
    "batchDuration": 1520,
    "numInputRows": 40,
    "inputRowsPerSecond": 20.5,
    "processedRowsPerSecond": 26.3,
    "durationMs": {"addBatch": 1175, "commitOffsets": 42, "latestOffset": 137, "triggerExecution": 1520},
    "sources": [{"description": "FileStreamSource[file:/in]", "endOffset": {"logOffset": 1}, "latestOffset": None}],
}
IDLE = BATCH | {"numInputRows": 0, "durationMs": {"latestOffset": 26, "triggerExecution": 30}}


def kafka(**fields: Any) -> dict[str, Any]:
    return {"description": "KafkaV2[Subscribe[flights]]", "endOffset": {"flights": {"0": 10, "1": 20}}} | fields


def lag_of(*sources: dict[str, Any]) -> int | None:
    trigger = read_trigger(json.dumps(BATCH | {"sources": list(sources)}))
    assert trigger is not None
    return trigger.lag


def test_a_batch_is_read_with_its_times_and_rows() -> None:
    trigger = read_trigger(json.dumps(BATCH))

    assert trigger is not None
    assert (trigger.batch, trigger.executed, trigger.seconds, trigger.input_rows) == (7, True, 1.52, 40)
    assert (trigger.input_rate, trigger.processed_rate, trigger.lag) == (20.5, 26.3, None)
    assert trigger.phases["commitOffsets"] == 0.042
    assert trigger.ended_at == datetime(2026, 11, 24, 15, 53, 39, 555000, tzinfo=timezone.utc)


def test_a_trigger_without_data_has_executed_nothing() -> None:
    trigger = read_trigger(json.dumps(IDLE))

    assert trigger is not None
    assert not trigger.executed


def test_the_lag_of_kafka_is_what_each_partition_still_has() -> None:
    assert lag_of(kafka(latestOffset={"flights": {"0": 15, "1": 20, "2": 3}})) == 5 + 0 + 3


def test_a_topic_that_was_made_again_is_not_ahead_of_its_end() -> None:
    assert lag_of(kafka(latestOffset={"flights": {"0": 2, "1": 25}})) == 0 + 5


def test_the_lag_comes_from_the_metrics_without_reported_latest_offsets() -> None:
    assert lag_of(kafka(latestOffset=None, metrics={"avgOffsetsBehindLatest": "2.5"})) == 5


def test_the_lag_is_the_sum_over_sources_that_report_a_lag() -> None:
    behind = kafka(latestOffset={"flights": {"0": 11, "1": 22}})

    assert lag_of(behind, behind, BATCH["sources"][0]) == 6


@pytest.mark.parametrize("infinite", [None, "Infinity", "NaN"])
def test_a_rate_that_is_no_number_is_nothing(infinite: Any) -> None:
    trigger = read_trigger(json.dumps(BATCH | {"inputRowsPerSecond": infinite}))

    assert trigger is not None
    assert trigger.input_rate == 0.0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"timestamp": 7, "batchId": 1}', '{"timestamp": "today", "batchId": 1}']
)
def test_what_is_no_progress_is_no_trigger(text: str) -> None:
    assert read_trigger(text) is None


def test_a_job_has_samples_of_its_standby_drivers_if_it_requests_any(stage: Stage) -> None:
    place = stage.served()

    samples = scrape(place)
    stage.standbys, stage.living = None, ()
    without = scrape(place)

    assert value(samples, "spark_ha_standby_drivers_ready") == 1.0
    assert value(samples, "spark_ha_standby_drivers_requested") == 2.0
    assert not [name for name, _ in without if name.startswith("spark_ha_standby")]


def test_the_levels_of_standby_drivers_have_the_time_since_they_were_reached(stage: Stage) -> None:
    samples = scrape(stage.served())

    assert value(samples, "spark_ha_standby_driver_level_seconds", level="session") == 30.0
