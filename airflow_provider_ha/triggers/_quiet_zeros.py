"""Which zeros of a job a receiver has already: most values of a job that is well say what it is not.

A job is in one state, so all others are 0, and so is each reason of a restart that did not happen: three quarters of
its values, the same each minute. Airflow and its client take most of the time of a report for sending them one by one.
Each of these is sent when it becomes 0, and again in every :data:`AGAIN`-th report, because a datagram may be lost and
a receiver may forget.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_provider_ha.jobs import metrics
from airflow_provider_ha.triggers._stat_names import Sample


AGAIN = 4  # reports; within the five minutes for which receivers of Prometheus keep a value
_LISTS = frozenset(metric.name for metric in (metrics.JOB_STATE, metrics.JOB_STALLED, metrics.RESTARTS))

_Zeros = frozenset[tuple[str, ...]]


class QuietZeros:
    """The zeros that were sent of each job. For one thread at a time."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[_Zeros, int]] = {}
        self._equal: dict[_Zeros, _Zeros] = {}

    def news(self, job_id: str, samples: Sequence[Sample]) -> list[Sample]:
        """Return the samples to send now."""
        known, turn = self._sent.get(job_id, (_Zeros(), 0))
        if turn % AGAIN == 0:
            return list(samples)
        return [each for each in samples if each.value != 0 or _key(each) not in known]

    def sent(self, job_id: str, samples: Iterable[Sample]) -> None:
        """Note that the receiver has all of *samples*: those that were sent now, and those from before."""
        zeros = frozenset(_key(each) for each in samples if each.metric.name in _LISTS and each.value == 0)
        # One set for all jobs that have the same: thousands of them would be thousands of sets.
        zeros = self._equal.setdefault(zeros, zeros)
        # The first turn differs between jobs, so that not all of them send everything in one minute.
        _, turn = self._sent.get(job_id, (zeros, len(self._sent)))
        self._sent[job_id] = zeros, turn % AGAIN + 1

    def forget(self, job_ids: Iterable[str]) -> None:
        """Send everything of these jobs the next time."""
        for job_id in job_ids:
            self._sent.pop(job_id, None)
        if not self._sent:
            self._equal.clear()


def _key(sample: Sample) -> tuple[str, ...]:
    return (sample.metric.name, *sample.labels)
