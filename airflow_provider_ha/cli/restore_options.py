"""Options of a restore and its plan on the command line, and the resulting request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.model import RestorePlan, Verdict
from airflow_provider_ha.cli.adopted import StartWords, adopted, start_words
from airflow_provider_ha.cli.plan_path import plan_of_place
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.control.job.requests import IfLost, RestoreRequest
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.pointers.ownership import ClaimMode


StartFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--start-from",
        help="latest, checkpoint-<n>, savepoint-<id> or 'before <time>', e.g. 14:05, 2026-11-21T14:05, 14:05+00:00; or "
        "a checkpoint directory that Spark wrote elsewhere, a path, s3://bucket/prefix or hdfs://namenode:8020/path, "
        "once for each query of the script. Its last name is the query's when none is given. Default: latest.",
        metavar="WORD|[QUERY=]PATH",
    ),
]
SourceJob = Annotated[
    str | None, typer.Option("--from-job", help="Job that the checkpoint belongs to; default: the same.", metavar="JOB")
]
NoFallback = Annotated[
    bool, typer.Option("--no-fallback", help="Refuse, instead of taking an older one when the wanted one is bad.")
]
AcceptVerdicts = Annotated[
    list[Verdict] | None,
    typer.Option("--accept-verdict", help="A verdict besides SAFE that is accepted; may be repeated."),
]
Claim = Annotated[
    ClaimMode,
    typer.Option(
        "--claim-mode",
        help="NO_CLAIM: the source of the restore stays its owner's. CLAIM: it becomes the job's, which removes it "
        "once newer checkpoints subsume it.",
    ),
]
Output = Annotated[
    OutputMode, typer.Option("--output", help="Another job's file sinks: continue the old log, or begin a fresh one.")
]
JobOrPlace = Annotated[
    str,
    typer.Argument(
        help="Id of a managed job, or path of one query's checkpoint: a directory (a word with a slash is a path: "
        "write ./NAME), or s3://bucket/prefix.",
        metavar="JOB|PATH|URI",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(min=0, help="With a path: the batch to continue from; default: the newest restorable.", metavar="N"),
]
KafkaBootstrap = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-bootstrap", help="Brokers that a query reads from; may be repeated.", metavar="QUERY=HOST:PORT[,...]"
    ),
]
KafkaProperties = Annotated[
    str | None,
    typer.Option("--kafka-properties", help="File of client properties to log in there, of mode 0600.", metavar="FILE"),
]
AcceptUnverified = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-unverified",
        help="Go on although facts of this query are not verified; also needs --accept-verdict LOSS_POSSIBLE.",
        metavar="QUERY",
    ),
]
ResetQueryId = Annotated[
    list[str] | None,
    typer.Option(
        "--reset-query-id",
        help="Give this query a fresh id: its Delta table skips none of its batches.",
        metavar="QUERY",
    ),
]
Repeatable = Annotated[
    list[str] | None,
    typer.Option(
        "--repeatable",
        help="A batch of this query that comes again leaves its output as it was, so it is SAFE to give it again; may "
        "be repeated. Default: as the job was submitted.",
        metavar="QUERY",
    ),
]
AllowRemoteExecutors = Annotated[
    bool,
    typer.Option(
        "--allow-remote-executors",
        help="Allow a Spark master that is not local: nothing then proves that a lost driver's executors are dead.",
    ),
]

WhenLost = Annotated[
    IfLost | None,
    typer.Option(
        "--if-lost",
        help="The job has a live run that has lost its driver: restart ends it and restores, recover continues it "
        "instead. Without it the restore is refused.",
    ),
]
AllowNewQueries = Annotated[
    bool,
    typer.Option(
        "--allow-new-queries",
        help="The script may start queries of other names after a loss, in place of those that it had.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreWords:
    """The options of a restore as the user wrote them."""

    start_from: list[str]
    source_job: str | None
    no_fallback: bool
    output: OutputMode
    accept_verdicts: list[Verdict]
    sink: list[str]
    claim_mode: ClaimMode
    kafka_bootstrap: list[str]
    kafka_properties: str | None
    accept_unverified: list[str]
    reset_query_id: list[str]
    batch: int | None
    repeatable: list[str]
    allow_new_queries: bool = False
    allow_remote_executors: bool = False
    if_lost: IfLost | None = None

    @property
    def start(self) -> StartWords:
        """Start of the restore.

        :raises ConfigurationError: The words contradict each other.
        """
        return start_words(self.start_from)

    @property
    def accepted(self) -> frozenset[Verdict]:
        """The accepted verdicts."""
        return frozenset({Verdict.SAFE, *self.accept_verdicts})

    def request(self, job_id: str, request_id: str | None = None) -> RestoreRequest:
        """Return the request to a job.

        :raises ConfigurationError: The words do not fit a job, or each other.
        """
        if self.batch is not None:
            raise ConfigurationError(
                "--batch applies to the path of a checkpoint; checkpoints of a job have numbers",
                next_step="Name one with --start-from checkpoint-<n>",
            )
        named = adopted(self.start.directories, self.sink, self.source_job)
        return RestoreRequest(
            job_id=job_id,
            request_id=request_id or operation_id("restore"),
            source_job=self.source_job,
            start_from=self.start.word,
            fallback=not self.no_fallback,
            output=self.output,
            accept_verdicts=self.accepted,
            claim_mode=self.claim_mode,
            adopt=named.directories,
            sinks=named.sinks,
            kafka_bootstrap=by_query("--kafka-bootstrap", self.kafka_bootstrap),
            kafka_properties=self.kafka_properties,
            accept_unverified=frozenset(self.accept_unverified),
            reset_query_ids=frozenset(self.reset_query_id),
            repeatable=tuple(self.repeatable) or None,
            allow_new_queries=self.allow_new_queries or None,
            allow_remote_executors=self.allow_remote_executors,
            if_lost=self.if_lost,
        )

    def plan_of_place(self, place: str) -> RestorePlan:
        """Return the restore plan of a checkpoint path without a managed job.

        :raises ConfigurationError: The words do not fit a place.
        :raises HaError: As ``plan_directory``.
        """
        of_jobs = (
            self.start != StartWords(),
            self.source_job,
            self.no_fallback,
            self.output is not OutputMode.CONTINUE,
            self.reset_query_id,
            self.allow_new_queries,
            self.claim_mode is not ClaimMode.NO_CLAIM,
            self.if_lost,
        )
        if any(of_jobs):
            raise ConfigurationError(
                f"{place!r} is a path; an option applies only to checkpoints of a job",
                next_step="Remove the option, or name the job",
            )
        return plan_of_place(
            place,
            batch=self.batch,
            sinks=self.sink,
            kafka_bootstrap=self.kafka_bootstrap,
            kafka_properties=self.kafka_properties,
            accept_unverified=self.accept_unverified,
            repeatable=self.repeatable,
        )


def by_query(option: str, given: Iterable[str] | None) -> Mapping[str, str]:
    """Return query -> value of a repeated ``QUERY=VALUE``.

    :raises ConfigurationError: A word has another form, or a query is repeated.
    """
    found: dict[str, str] = {}
    for each in given or ():
        query, separator, value = each.rpartition(
            "="
        )  # a value of hosts and ports contains no equals sign, but a name may
        if not separator or not query or not value:
            raise ConfigurationError(f"{option} {each!r} is no QUERY=VALUE", next_step="Name the query first")
        if query in found:
            raise ConfigurationError(f"{option} names query {query!r} twice", next_step="Separate hosts by commas")
        found[query] = value
    return found
