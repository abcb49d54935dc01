"""What a request chooses about a restore, checked against the queries of the cut."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from airflow_provider_ha.checkpoints.connectors.sinks import type_of
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.query_names import query_directory


def restore_choices(
    request: RestoreRequest, chosen: Chosen, *, job_id: str, source_job: str, options: HaOptions | None = None
) -> RestoreChoices:
    """Return the choices of *request*. A query that gets a fresh id has it from then on.

    :param options: Of the graph that wrote the cut; ``None`` when they are not known.
    :raises ConfigurationError: The request names a query that the cut does not have, or that cannot get a fresh id.
    """
    _check_names(request, chosen)
    return RestoreChoices(
        job_id=job_id,
        source_job=source_job,
        same_output=source_job == job_id,
        accept_unverified=request.accept_unverified,
        reset_query_ids={name: str(uuid.uuid4()) for name in request.reset_query_ids},
        claim_mode=request.claim_mode,
        repeatable=_repeatable(request, options),
    )


def options_of(source: JobContext, chosen: Chosen) -> HaOptions | None:
    """Return the options of the graph that wrote a cut; ``None`` when it cannot be read.

    A run that starts from this graph meets the error; a plan can still be shown.
    """
    try:
        return source.graphs.read_graph(Blob(sha256=chosen.graph, size=0)).options
    except (HaError, ValueError):
        return None


def _repeatable(request: RestoreRequest, options: HaOptions | None) -> Collection[str]:
    said = request.options or options
    names = said.repeatable if said is not None and request.repeatable is None else request.repeatable
    return frozenset(map(query_directory, names or ()))


def _check_names(request: RestoreRequest, chosen: Chosen) -> None:
    for option, named in (
        ("kafka_bootstrap", request.kafka_bootstrap),
        ("accept_unverified", request.accept_unverified),
        ("reset_query_ids", request.reset_query_ids),
    ):
        if strange := sorted(set(named) - set(chosen.queries)):
            raise ConfigurationError(
                f"{option} names {strange}, but the queries of the cut are {sorted(chosen.queries)}",
                next_step="Correct the name",
            )
    for name in sorted(request.reset_query_ids):
        sink = chosen.queries[name].sink
        if type_of(sink).table is None:
            raise ConfigurationError(
                f"query {name!r} writes to a {sink.format or sink.kind.value} sink, which does not remember query "
                "ids: a fresh one would change nothing",
                next_step="Leave it out of reset_query_ids",
            )
