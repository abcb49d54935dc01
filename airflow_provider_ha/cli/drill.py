"""``spark-ha savepoint drill`` and ``drills``: rehearse the restore of a job, and list the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.requests import operation_id, who
from airflow_provider_ha.cli.session import AsJson, JobId, cluster
from airflow_provider_ha.control.drills.drill import DrillRequest, drill
from airflow_provider_ha.control.drills.drill_verdict import Limits
from airflow_provider_ha.control.verification.cut_proof import ProofOptions
from airflow_provider_ha.control.verification.prove import DEFAULT_DEADLINE, DEFAULT_HEAP
from airflow_provider_ha.jobs.history.drills import Drill, DrillStore, DrillVerdict
from airflow_provider_ha.views.drills import DrillView, drill_list


_ANSWER = {DrillVerdict.PASSED: Exit.YES, DrillVerdict.FAILED: Exit.NO, DrillVerdict.UNKNOWN: Exit.UNKNOWN}


def run_drill(
    context: typer.Context,
    job_id: JobId,
    start_from: Annotated[
        str, typer.Option(help="savepoint (the newest), latest, checkpoint-<n>, savepoint-<id> or 'before <time>'.")
    ] = "savepoint",
    max_age: Annotated[
        float | None, typer.Option(help="Fail when it is older than this many seconds.", metavar="SECONDS")
    ] = None,
    max_duration: Annotated[
        float | None, typer.Option(help="Fail when all steps together take longer.", metavar="SECONDS")
    ] = None,
    load_only: Annotated[
        bool, typer.Option("--load-only", help="Load the state, and do not start the job's application.")
    ] = False,
    heap: Annotated[str, typer.Option(help="Memory of Spark's JVM.", metavar="SIZE")] = DEFAULT_HEAP,
    deadline: Annotated[
        float, typer.Option(help="Seconds that Spark may take for each query.", metavar="SECONDS")
    ] = DEFAULT_DEADLINE,
    as_json: AsJson = False,
) -> None:
    """Rehearse a restore on this host: verify, copy, load and start the newest savepoint, with no sink.

    The job is not affected. Each phase prints a line on stderr when it begins.

    Exit 0: Spark continues from it, within the limits; 1: it does not; 2: it gave no answer.
    """
    with cluster(context, as_json=as_json) as client:
        request = DrillRequest(
            drill_id=operation_id("drill"),
            requested_by=who(),
            start_from=start_from,
            limits=Limits(max_age=max_age, max_duration=max_duration),
            options=ProofOptions(start=not load_only, heap=heap, deadline=deadline),
        )
        done = drill(client.context(job_id), request, lambda line: console.err.print(line, markup=False))
    if as_json:
        console.print_json(DrillView.of(done))
    else:
        _print(done)
    raise typer.Exit(_ANSWER[done.verdict])


def list_drills(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the restore drills of a job, newest first. Exit 0 for any verdict."""
    with cluster(context, as_json=as_json) as client:
        job = client.context(job_id)
        job.snapshot()  # an unknown job is an error, not an empty list
        drills, unreadable = DrillStore(job.store, job.keys).list()
    if as_json:
        console.print_json(drill_list(job_id, drills, unreadable))
        return
    console.print_table(
        ("BEGUN", "SOURCE", "VERDICT", "AGE", "TOOK", "BYTES", "SPARK", "REASON"),
        (
            [
                f"{one.started_at:%Y-%m-%d %H:%M}",
                one.source,
                one.verdict.value,
                f"{one.age_seconds:.0f} s",
                f"{one.total_seconds:.1f} s",
                one.size,
                one.spark_version,
                "; ".join(one.reasons) or None,
            ]
            for one in drills
        ),
        empty=f"the restore of job {job_id} was never drilled",
    )
    for broken in unreadable:
        console.err.print(f"unreadable {broken.name}: {broken.reason}", markup=False)


def _print(done: Drill) -> None:
    console.print_fields(
        {
            "verdict": done.verdict.value,
            "source": done.source,
            "age": f"{done.age_seconds:.0f} s",
            "bytes": done.size,
            "cut": console.cut_text(done.cut),
            "spark": done.spark_version,
        }
    )
    for reason in done.reasons:
        console.out.print(f"- {reason}", markup=False)
    console.print_table(("STEP", "SECONDS"), [*done.seconds.items(), ("total", done.total_seconds)], empty="")
    console.print_table(
        ("QUERY", "BATCH", "LOADED", "STARTED", "PARTITIONS", "ROWS"), _queries(done), empty="Spark was not asked"
    )


def _queries(done: Drill) -> Iterator[tuple[object, ...]]:
    for name, query in done.queries.items():
        yield name, query.batch, query.loaded, query.started, query.partitions, query.state_rows
