"""From the words of ``spark-ha restore`` and ``checkpoint plan`` to the request of a restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from airflow_provider_ha.checkpoints.model import RestorePlan, Verdict
from airflow_provider_ha.cli.adopted import adopted, start_words
from airflow_provider_ha.cli.conf_options import driver_environment, spark_conf
from airflow_provider_ha.cli.plan_path import plan_of_place
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declared import read


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
_COMMAS = ("py_files", "files", "jars", "archives", "packages")  # lists that a word may hold, as for spark-submit
# Of the checkpoint at a path, without a job.
_OF_PLACES = frozenset(
    {
        "sinks",
        "kafka_bootstrap",
        "kafka_properties",
        "accept_unverified",
        "repeatable",
        "accept_verdicts",
        "allow_remote_executors",
    }
)


def accepted(words: Mapping[str, Any]) -> frozenset[Verdict]:
    """Return the verdicts with which a restore is carried out."""
    return frozenset({Verdict.SAFE, *(words["accept_verdicts"] or ())})


def request_of(words: Mapping[str, Any], job_id: str, batch: int | None, request_id: str | None) -> RestoreRequest:
    """Return the request to a job.

    :param words: Option of the request -> its words; ``None`` for one that is left out.
    :raises ConfigurationError: The words do not fit a job, or each other.
    """
    if batch is not None:
        raise ConfigurationError(
            "--batch applies to the path of a checkpoint; checkpoints of a job have numbers",
            next_step="Name one with --start-from checkpoint-<n>",
        )
    start = start_words(words["start_from"])
    named = adopted(start.directories, words["sinks"] or (), words["source_job"])
    given = {
        **words,
        **split_lists(words),
        "conf": spark_conf(words["conf"], None) if words["conf"] else None,
        "env": driver_environment(words["env"]) if words["env"] else None,
        "start_from": start.word,
        "sinks": named.sinks,
        "accept_verdicts": accepted(words),
        "kafka_bootstrap": by_query("--kafka-bootstrap", words["kafka_bootstrap"]),
    }
    return read(
        RestoreRequest,
        given,
        subject=f"the restore of job {job_id!r}",
        job_id=job_id,
        request_id=request_id or operation_id("restore"),
        adopt=named.directories,
    )


def place_plan(words: Mapping[str, Any], place: str, batch: int | None) -> RestorePlan:
    """Return the restore plan of a checkpoint path without a managed job.

    :raises ConfigurationError: The words do not fit a place.
    :raises HaError: As ``plan_of_place``.
    """
    if of_jobs := sorted(name for name, value in words.items() if value is not None and name not in _OF_PLACES):
        raise ConfigurationError(
            f"{place!r} is a path; {', '.join(of_jobs)} apply only to checkpoints of a job",
            next_step="Remove the option, or name the job",
        )
    return plan_of_place(
        place,
        batch=batch,
        sinks=words["sinks"] or [],
        kafka_bootstrap=words["kafka_bootstrap"] or [],
        kafka_properties=words["kafka_properties"],
        accept_unverified=words["accept_unverified"] or [],
        repeatable=words["repeatable"] or [],
    )


def split_lists(words: Mapping[str, Any]) -> dict[str, list[str] | None]:
    """Return the lists of files and packages, whose words may be separated by commas."""
    return {name: _split(words[name]) if words[name] else None for name in _COMMAS}


def by_query(option: str, given: Iterable[str] | None) -> Mapping[str, str]:
    """Return query -> value of a repeated ``QUERY=VALUE``.

    :raises ConfigurationError: A word has another form, or a query is repeated.
    """
    found: dict[str, str] = {}
    for each in given or ():
        query, separator, value = each.rpartition("=")  # of hosts and ports none holds one, and a name may
        if not separator or not query or not value:
            raise ConfigurationError(f"{option} {each!r} is no QUERY=VALUE", next_step="Name the query first")
        if query in found:
            raise ConfigurationError(f"{option} names query {query!r} twice", next_step="Separate hosts by commas")
        found[query] = value
    return found


def _split(values: Iterable[str]) -> list[str]:
    return [part.strip() for value in values for part in value.split(",") if part.strip()]
