"""What this epoch's working directory was made from, as the starts of the queries need to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG, sink_log
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryPlan, RestorePlan
from airflow_provider_ha.checkpoints.trees.tree import Tree, WritableTree
from airflow_provider_ha.checkpoints.working.pins import sink_directory
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import Fallback, OutputMode


class OriginKind(str, Enum):
    """Where a working directory comes from."""

    FRESH = "fresh"
    RECOVERY = "recovery"  # of an earlier epoch of the same run
    RESTORE = "restore"  # the first epoch of a run that starts from a checkpoint or savepoint
    FALLBACK = "fallback"  # of a checkpoint, in place of the directory of an earlier epoch of the same run


@dataclass(frozen=True, slots=True)
class Origin:
    """A working directory and its past.

    :param key: Key of the directory.
    :param directory: The directory.
    :param location: Its URI, as Spark is given it.
    :param source: For people: ``"epoch 3"``, ``"checkpoint-12"``.
    :param plan: The restore plan of the run, or of its last fallback; also for recoveries, because an epoch may end in
        the middle of its replay.
    :param fallback: The last fallback of the run; ``None`` when there was none.
    :param sinks: Directory with the sinks' logs of the restored cut, laid out as a pin; ``None`` when nothing was
        restored.
    :param drain: Fork in which an earlier epoch began to drain, and did not finish; ``None`` when there is none.
    :param carried: Query -> batches of the lost epoch that no checkpoint holds yet.
    :param output: What the log of a sink with another output directory is seeded with.
    :param reach: How the file systems of outputs are reached.
    :param writers_dead: Whether the earlier drivers of the run are proven dead.
    :param lossy: Query -> batch from which it goes on without input that is gone, by consent.
    :param message: What its user has to know about the recovery; empty for nothing.
    """

    kind: OriginKind
    key: str
    directory: WritableTree
    location: str = ""
    source: str = ""
    plan: RestorePlan | None = None
    sinks: Tree | None = None
    drain: Tree | None = None
    carried: Mapping[str, tuple[BatchEntry, ...]] = field(default_factory=dict)
    output: OutputMode = OutputMode.CONTINUE
    fallback: Fallback | None = None
    reach: Reach = field(default_factory=Reach)
    writers_dead: bool = True
    lossy: Mapping[str, int] = field(default_factory=dict)
    message: str = ""

    @property
    def plans(self) -> Mapping[str, QueryPlan]:
        """Query -> what the run's restore plan says about it."""
        return self.plan.queries if self.plan else {}

    def check_adopted(self, query: str) -> None:
        """Refuse a query that was not named when its job's checkpoints were adopted: it would begin from nothing.

        :raises RestoreRefusedError: It was not.
        """
        if self.plan is not None and self.plan.adopted and query not in self.plan.adopted:
            raise RestoreRefusedError(
                f"the script starts query {query!r}, but the checkpoints of {sorted(self.plan.adopted)} were adopted",
                next_step="Name the checkpoint of every query of the script; a new query comes with the next run",
            )

    def sink_log(self, query: str) -> Tree | None:
        """Return where the log of a query's file sink was kept with the restored cut; ``None`` when nowhere.

        What was adopted keeps none: there it is the log of the sink itself, whose query has ended.
        """
        if self.plan is None or self.sinks is None:
            return None
        if query not in self.plan.adopted:
            return sink_directory(self.sinks, query) / LOG
        path = self.plans[query].sink.path
        return sink_log(path, self.reach) if path is not None else None

    def recorded(self, query: str) -> tuple[BatchEntry, ...]:
        """Return the batches of *query* that have to be executed with their recorded boundaries."""
        plan = self.plans.get(query)
        return plan.replay if plan else ()

    def known(self, query: str) -> tuple[BatchEntry, ...]:
        """Return the batches of *query* that are part of its past, whether its directory still shows them or not."""
        return (*self.recorded(query), *self.carried.get(query, ()))
