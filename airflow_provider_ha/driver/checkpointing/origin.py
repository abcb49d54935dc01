"""The origin of this epoch's working directory, as the starts of the queries need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, sink_log
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import Fallback, OutputMode


class OriginKind(str, Enum):
    """The source of a working directory."""

    FRESH = "fresh"
    RECOVERY = "recovery"  # of an earlier epoch of the same run
    RESTORE = "restore"  # the first epoch of a run that starts from a checkpoint or savepoint
    FALLBACK = "fallback"  # from a checkpoint, in place of the directory of an earlier epoch of the same run


@dataclass(frozen=True, slots=True)
class Origin:
    """A working directory and its past.

    :param key: Key of the directory.
    :param directory: The directory.
    :param location: Its URI, as Spark receives it.
    :param source: For people: ``"epoch 3"``, ``"checkpoint-12"``.
    :param plan: The restore plan of the run, or of its last fallback; also for recoveries, because an epoch may end in
        the middle of its replay.
    :param fallback: The last fallback of the run; ``None`` without a fallback.
    :param sinks: Directory with the sinks' logs of the restored cut, laid out as a pin; ``None`` without a restored
        cut.
    :param drain: Fork with an unfinished drain of an earlier epoch; ``None`` without such a drain.
    :param carried: Query -> batches of the lost epoch that no checkpoint holds yet.
    :param output: Seed for the log of a sink with another output directory.
    :param reach: Access to the file systems of outputs.
    :param writers_dead: Whether the earlier drivers of the run are proven dead.
    :param lossy: Query -> batch from which it continues without its missing input, by consent.
    :param message: Facts about the recovery that its user has to know; empty for none.
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
    reach: StorageAccess = field(default_factory=StorageAccess)
    writers_dead: bool = True
    lossy: Mapping[str, int] = field(default_factory=dict)
    message: str = ""

    @property
    def plans(self) -> Mapping[str, QueryPlan]:
        """Query -> its part of the run's restore plan."""
        return self.plan.queries if self.plan else {}

    def check_adopted(self, query: str) -> None:
        """Refuse a query that was not named when its job's checkpoints were adopted: it would start without a past.

        :raises RestoreRefusedError: It was not.
        """
        if self.plan is not None and self.plan.adopted and query not in self.plan.adopted:
            raise RestoreRefusedError(
                f"the script starts query {query!r}, but the checkpoints of {sorted(self.plan.adopted)} were adopted",
                next_step="Name a checkpoint for each query of the script; a new query starts with the next run",
            )

    def sink_log(self, query: str) -> Tree | None:
        """Return the log of a query's file sink as kept with the restored cut; ``None`` if none was kept.

        An adopted checkpoint keeps no copy: its log is that of the sink itself, whose query has ended.
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
        """Return the batches of *query* that belong to its past, even if its directory no longer shows them."""
        return (*self.recorded(query), *self.carried.get(query, ()))

    def carried_to(self, query: str) -> int:
        """Return the highest batch of *query* that a lost epoch has committed and that is carried; -1 for none."""
        return max((entry.batch for entry in self.carried.get(query, ()) if entry.commits is not None), default=-1)
