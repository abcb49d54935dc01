"""The samples of a job for Airflow's Stats, and their names: pure functions of what was read."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
import yaml

from airflow_provider_ha.airflow_side.job_samples import Carrier, Sample, SampledJob, carrier, samples, stat_of
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.metric_names import COMMON_LABELS, METRICS, Emitter, Metric
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, QueryStatus
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.status import JobStatus
from tests.docs.statsd_mappings import FILE, mappings
from tests.support.clusters.jobs_helpers import (
    NOON,
    a_leader,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
)


LATER = NOON + timedelta(minutes=10)


def submitted(attempt: int, *, minutes: float = 0.0, dead: bool = False) -> SubmissionView:
    at = NOON + timedelta(minutes=minutes)
    gone = an_exit().model_copy(update={"at": at + timedelta(minutes=1)}) if dead else None
    submission = a_submission(attempt).model_copy(update={"created_at": at})
    return SubmissionView(submission=submission, started=a_start(), exit=gone)


def running(leader: LeaderInfo | None = None, *submissions: SubmissionView) -> JobStatus:
    """Return a job whose leader has committed batch 7 a minute ago."""
    leader = leader or a_leader()
    query = QueryStatus(planned=8, committed=7, committed_at=LATER - timedelta(minutes=1))
    status = a_status(epoch=leader.epoch).model_copy(update={"queries": {"rows": query}})
    run = RunView(run=a_run(), submissions=submissions or (submitted(1),))
    return JobStatus(job_id="flights", leader=leader, epoch=leader.epoch, run=run, status=status)


def told(snapshot: JobStatus, options: HaOptions | None = None) -> dict[tuple[Metric, tuple[str, ...]], float]:
    found = list(samples(SampledJob(snapshot=snapshot, options=options), LATER))
    assert len({(each.metric, each.labels) for each in found}) == len(found)
    return {(each.metric, each.labels): each.value for each in found}


def test_only_what_the_list_says_is_told() -> None:
    listed = {metric for metric in METRICS if Emitter.AIRFLOW in metric.emitters}

    assert {metric for metric, _ in told(running(), HaOptions())} <= listed


def test_a_figure_that_no_driver_has_reported_is_left_out() -> None:
    values = told(running())

    assert values[metric_names.BATCH_NUMBER, ("rows",)] == 7
    assert values[metric_names.COMMIT_AGE, ("rows",)] == 60
    assert not {metric_names.LAG, metric_names.INPUT_RATE, metric_names.CHECKPOINT_AGE, metric_names.ATTEMPTS_LIMIT} & {
        m for m, _ in values
    }


def test_a_run_that_is_over_has_a_state_and_nothing_else() -> None:
    over = running()
    assert over.run is not None
    values = told(replace(over, run=replace(over.run, result=a_result(JobState.FAILED))))

    assert {metric for metric, _ in values} == {metric_names.JOB_STATE, metric_names.JOB_STALLED}
    assert [state for (_, state), value in values.items() if value == 1.0] == [("FAILED",)]


def test_the_figures_of_a_leader_that_is_gone_are_not_those_of_the_next_one() -> None:
    next_one = replace(running(), leader=a_leader(2), epoch=2)

    assert not [labels for _, labels in told(next_one) if "rows" in labels]


def test_a_lost_job_has_no_figures_and_its_age_goes_on() -> None:
    values = told(replace(running(a_leader(), submitted(1, dead=True)), leader=None))

    assert values[metric_names.JOB_STATE, ("LOST",)] == 1.0
    assert not [labels for _, labels in values if "rows" in labels]
    assert (metric_names.LEADER_SINCE, ()) not in values


def test_a_recovery_is_told_in_the_phases_that_records_have() -> None:
    leader = a_leader(2, attempt=2).model_copy(update={"since": NOON + timedelta(minutes=3, seconds=4)})
    values = told(running(leader, submitted(1, dead=True), submitted(2, minutes=3)), HaOptions(restart_attempts=5))

    phases = {labels: value for (metric, labels), value in values.items() if metric is metric_names.RECOVERY}
    assert phases == {("submit",): 120.0, ("lead",): 4.0}
    assert values[metric_names.RESTARTS, ("killed",)] == 1
    assert values[metric_names.ATTEMPTS_USED, ()] == 1
    assert values[metric_names.ATTEMPTS_LIMIT, ()] == 5


def test_the_first_leader_of_a_run_has_recovered_nothing() -> None:
    assert metric_names.RECOVERY not in {metric for metric, _ in told(running())}


LAG = Sample(metric_names.LAG, 4.0, ("rows",))


@pytest.mark.parametrize(
    ("carrier", "stat"),
    [
        (Carrier.ATTRIBUTES, ("spark_ha.lag_rows", {"cluster": "prod", "job_id": "a.b", "query": "rows"})),
        (Carrier.TAGS, ("spark_ha.lag_rows", {"cluster": "prod", "spark_job": "a.b", "query": "rows"})),
        (Carrier.NAMES, ("spark_ha.lag_rows.prod.a__b.rows", {})),
    ],
)
def test_a_value_says_which_job_it_is_of(carrier: Carrier, stat: tuple[str, dict[str, str]]) -> None:
    assert stat_of(LAG, "prod", "a.b", carrier) == stat


@pytest.mark.parametrize("carrier", [Carrier.TAGS, Carrier.NAMES])
def test_a_name_that_airflow_would_refuse_is_shortened_and_stays_one_of_its_own(carrier: Carrier) -> None:
    lag = Sample(metric_names.LAG, 4.0, ("q" * 128,))

    found = {str(stat_of(lag, "prod", f"{'j' * 127}{end}", carrier)) for end in "ab"}

    assert len(found) == 2
    name, tags = stat_of(lag, "prod", "j" * 128, carrier)
    assert len(name) + sum(len(f",{tag}={value}") for tag, value in tags.items()) <= 250


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Carrier.NOTHING),
        ({"STATSD_ON": "True"}, Carrier.NAMES),
        ({"STATSD_ON": "True", "STATSD_INFLUXDB_ENABLED": "True"}, Carrier.TAGS),
        ({"STATSD_DATADOG_ENABLED": "True"}, Carrier.TAGS),
        ({"STATSD_DATADOG_ENABLED": "True", "STATSD_DATADOG_METRICS_TAGS": "False"}, Carrier.NAMES),
        ({"OTEL_ON": "True"}, Carrier.ATTRIBUTES),
        ({"OTEL_ON": "True", "STATSD_ON": "True"}, Carrier.NAMES),
    ],
)
def test_what_carries_metrics_is_read_from_airflow_as_airflow_reads_it(
    options: dict[str, str], expected: Carrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in options.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)

    assert carrier() is expected


def test_the_mappings_turn_what_airflow_sends_into_what_a_driver_serves() -> None:
    found = yaml.safe_load(FILE.read_text())["mappings"]

    assert FILE.read_text() == mappings(), "run python -m tests.docs.statsd_mappings"
    assert {each["name"] for each in found} == {each.name for each in METRICS if Emitter.AIRFLOW in each.emitters}
    for each in found:
        metric = next(metric for metric in METRICS if metric.name == each["name"])
        labels = metric.label_names
        sent, _ = stat_of(Sample(metric, 1.0, metric.labels), *COMMON_LABELS, Carrier.NAMES)
        parts = re.fullmatch(each["match"].replace(".", r"\.").replace("*", "([^.]*)"), f"airflow.{sent}")
        assert parts is not None, sent
        assert {label: parts[int(place.removeprefix("$"))] for label, place in each["labels"].items()} == {
            label: label for label in labels
        }
