"""What this epoch's working directory was made from, as the starts of the queries need to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from airflow_provider_ha.checkpoints.model import BatchEntry, QueryPlan
from airflow_provider_ha.jobs.model import OutputMode


class OriginKind(str, Enum):
    """Where a working directory comes from."""

    FRESH = "fresh"
    RECOVERY = "recovery"  # of an earlier epoch of the same run
    RESTORE = "restore"  # the first epoch of a run that starts from a checkpoint or savepoint


@dataclass(frozen=True, slots=True)
class Origin:
    """A working directory and its past.

    :param key: Key of the directory.
    :param directory: The directory.
    :param source: For people: ``"epoch 3"``, ``"checkpoint-12"``.
    :param plans: Query -> what the run's restore plan says about it; also for recoveries, because an epoch may end in
        the middle of its replay.
    :param sinks: Pin or savepoint with the sinks' logs of the restored cut; ``None`` when nothing was restored.
    :param drain: Fork in which an earlier epoch began to drain, and did not finish; ``None`` when there is none.
    :param carried: Query -> batches of the lost epoch that no checkpoint holds yet.
    :param output: What the log of a sink with another output directory is seeded with.
    """

    kind: OriginKind
    key: str
    directory: Path
    source: str = ""
    plans: Mapping[str, QueryPlan] = field(default_factory=dict)
    sinks: Path | None = None
    drain: Path | None = None
    carried: Mapping[str, tuple[BatchEntry, ...]] = field(default_factory=dict)
    output: OutputMode = OutputMode.CONTINUE

    def recorded(self, query: str) -> tuple[BatchEntry, ...]:
        """Return the batches of *query* that have to be executed with their recorded boundaries."""
        plan = self.plans.get(query)
        return plan.replay if plan else ()

    def known(self, query: str) -> tuple[BatchEntry, ...]:
        """Return the batches of *query* that are part of its past, whether its directory still shows them or not."""
        return (*self.recorded(query), *self.carried.get(query, ()))
