"""What is asked of a move, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from airflow_provider_ha.checkpoints.model import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """Move a job to another cluster, and with it to the store where that one works.

    :param requested_by: The requester, as recorded for people.
    :param stop: Whether a job that runs is stopped with a checkpoint; else it is refused.
    :param wait: Seconds to wait for the end of its run.
    :param conf: Spark conf that the job needs at its new place, on top of what it has; an empty value removes a key.
    :param packages: In place of the graph's ``packages``; ``None`` keeps them.
    :param master: In place of the graph's Spark master; ``None`` keeps it.
    :param accept_verdicts: Verdicts that are accepted for what the job goes on from.
    :param accept_unverified: Queries for which unverified facts are accepted; judged as LOSS_POSSIBLE.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of the brokers that it reads from, as for a restore.
    :param lineage: Conf for OpenLineage's listener in Spark, as for a restore.
    """

    requested_by: str
    stop: bool = False
    wait: float = 600.0
    conf: Mapping[str, str] = field(default_factory=dict)
    packages: tuple[str, ...] | None = None
    master: str | None = None
    accept_verdicts: frozenset[Verdict] = frozenset({Verdict.SAFE})
    accept_unverified: frozenset[str] = frozenset()
    kafka_bootstrap: Mapping[str, str] = field(default_factory=dict)
    lineage: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move, planned or done.

    :param origin: The old cluster.
    :param destination: The new cluster.
    :param place: Where the job works there: work root with the cluster id.
    :param state: ``"planned"``: nothing was changed; ``"moved"``: the job has its run at the new place;
        ``"abandoned"``: it may be started at its old place again.
    :param steps: Remaining steps, in order; empty after the move.
    :param source: What it goes on from: ``savepoint-<id>`` or ``checkpoint-<n>``; ``None`` while that is not known.
    :param cut: Query -> last batch that is brought along.
    :param replayed: Query -> batches that are executed again with their own boundaries.
    :param files: How many files are copied; ``None`` while that is not known.
    :param bytes: How many bytes they have.
    :param verdict: Of the restore plan.
    :param run: Number of the run at the new place.
    """

    job_id: str
    origin: str
    destination: str
    place: str
    state: Literal["planned", "moved", "abandoned"]
    move_id: str | None = None
    steps: tuple[str, ...] = ()
    source: str | None = None
    cut: Mapping[str, int] = field(default_factory=dict)
    replayed: Mapping[str, int] = field(default_factory=dict)
    files: int | None = None
    bytes: int | None = None
    verdict: Verdict | None = None
    run: int | None = None
