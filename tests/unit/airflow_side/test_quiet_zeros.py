"""Which values of a report are sent: all but the zeros of lists that the receiver has."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.airflow_side.job_samples import AGAIN, Sample, ZeroFilter, of_state
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.model import JobState


def reports(zeros: ZeroFilter, job_id: str, *told: list[Sample]) -> Iterator[list[Sample]]:
    """Yield what is sent of each report."""
    for samples in told:
        sent = zeros.news(job_id, samples)
        zeros.sent(job_id, samples)
        yield sent


def states(state: JobState) -> list[Sample]:
    return list(of_state(state))


def values(sent: list[Sample]) -> dict[str, float]:
    """Return the values of the states by their names."""
    return {each.labels[0]: each.value for each in sent if each.metric is metric_names.JOB_STATE}


def test_the_first_report_of_a_job_has_every_value() -> None:
    [first] = reports(ZeroFilter(), "flights", states(JobState.RUNNING))

    assert first == states(JobState.RUNNING)


def test_a_zero_that_was_sent_is_left_out_of_the_next_report() -> None:
    _, second = reports(ZeroFilter(), "flights", *[states(JobState.RUNNING)] * 2)

    assert second == [Sample(metric_names.JOB_STATE, 1.0, ("RUNNING",))]


def test_the_state_that_a_job_leaves_and_the_one_that_it_enters_are_sent() -> None:
    told = [states(JobState.RUNNING), states(JobState.LOST), states(JobState.RUNNING)]

    _, lost, back = reports(ZeroFilter(), "flights", *told)

    assert values(lost) == {"RUNNING": 0.0, "LOST": 1.0}
    assert values(back) == {"RUNNING": 1.0, "LOST": 0.0}


def test_every_value_is_sent_again_after_some_reports() -> None:
    told = states(JobState.RUNNING)

    lengths = [len(sent) for sent in reports(ZeroFilter(), "flights", *[told] * (3 * AGAIN))]

    assert [number for number, length in enumerate(lengths) if length == len(told)] == [0, AGAIN, 2 * AGAIN]


def test_jobs_that_begin_together_do_not_all_send_everything_in_the_same_report() -> None:
    zeros, told = ZeroFilter(), states(JobState.RUNNING)
    jobs = [f"job-{number}" for number in range(AGAIN)]
    for job in jobs:
        zeros.sent(job, told)

    whole = [[len(next(reports(zeros, job, told))) == len(told) for job in jobs] for _ in range(AGAIN)]

    assert [sum(turn) for turn in whole] == [1] * AGAIN


def test_a_figure_that_is_zero_is_sent_each_time() -> None:
    told = [Sample(metric_names.LAG, 0.0, ("revenue",)), Sample(metric_names.RESTARTS, 0.0, ("killed",))]

    _, second = reports(ZeroFilter(), "flights", told, told)

    assert second == told[:1]


def test_a_job_that_is_forgotten_begins_anew() -> None:
    zeros, told = ZeroFilter(), states(JobState.RUNNING)
    list(reports(zeros, "flights", told, told))

    zeros.forget(["flights"])

    assert list(reports(zeros, "flights", told)) == [told]
