"""Real-time and continuous queries: rows reach the sink before their boundaries are written.

Spark writes the boundaries of such a batch (of an epoch, in continuous mode) when it ends, just before its commit.
After a loss, input read since the last commit is read again, with other boundaries: rows come twice, none is lost. A
sink that remembers the numbers of batches would drop other rows of the same number, so these sinks are refused.

Invariant: such a query starts only after its user has accepted DUPLICATES_POSSIBLE for the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.connectors.sinks import type_of_format
from airflow_provider_ha.checkpoints.model import SinkKind, Verdict
from airflow_provider_ha.driver.writer_notes import SinkSpec
from airflow_provider_ha.errors import ApplicationRefusedError


REAL_TIME = "realTime"
CONTINUOUS = "continuous"
CONTINUOUS_EXECUTION = "ContinuousExecution"  # Spark's class of a continuous query
WORDS = {REAL_TIME: "real-time", CONTINUOUS: "continuous"}
_INSTEAD = "use the trigger processingTime or availableNow"


@dataclass(frozen=True, slots=True)
class UnplannedRules:
    """The conditions under which such a query may run.

    :param mounted: Whether working directories are on a mounted file system.
    :param accepted: Whether the run accepts that rows come twice.
    """

    mounted: bool = True
    accepted: bool = False

    def check(self, query: str, trigger: Mapping[str, Any], sink: SinkSpec) -> None:
        """Refuse a real-time or continuous query that may not run; every other one passes.

        :raises ApplicationRefusedError: It would lose rows or not be fenced, or its user has not accepted the
            duplicates.
        """
        mode = mode_of(trigger)
        if mode is None:
            return
        what = f"query {query!r} runs in {WORDS[mode]} mode, which writes the boundaries of a batch after its rows"
        if not self.mounted:
            raise ApplicationRefusedError(
                f"{what}; on S3 and HDFS the next entry of its log is the fence against a driver that was taken for "
                "dead, and such a driver would write rows for a whole batch before it meets that",
                next_step=f"Keep the work root on a mounted path, or {_INSTEAD}",
            )
        if sink.kind is not SinkKind.OTHER or type_of_format(sink.source).table:
            raise ApplicationRefusedError(
                f"{what}; after a loss a {sink.source} sink is given other rows under a number that it has already, "
                "and would drop them or replace the first ones",
                next_step=f"Write to Kafka, or with foreach, or {_INSTEAD}",
            )
        if not self.accepted:
            verdict = Verdict.DUPLICATES_POSSIBLE.value
            raise ApplicationRefusedError(
                f"{what}; each recovery and each restore gives the sink rows again ({verdict})",
                next_step=f"Submit with accept_verdicts=['SAFE', {verdict!r}] if that is acceptable, or {_INSTEAD}",
            )


def mode_of(trigger: Mapping[str, Any]) -> str | None:
    """Return the mode that a trigger names; ``None`` for a trigger with planned batches."""
    return next((mode for mode in WORDS if trigger.get(mode)), None)
