"""``spark-ha job``: list and inspect jobs, their leaders and histories, and print the logs of their drivers."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.history import HistoryView, JobLeaderView, RunHistoryView, history_view
from airflow_provider_ha.api.documents.job import (
    JobListView,
    JobRow,
    LogLineView,
    LogView,
    job_row,
    job_view,
    standbys_view,
    unreadable_row,
)
from airflow_provider_ha.api.documents.submission import GraphView, graph_view
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import run_numbers
from airflow_provider_ha.cli.session import INTERVAL, AsJson, Interval, JobId, Watch, answer, cluster, repeated
from airflow_provider_ha.errors import HaError, UnknownJobError
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.drivers.driver_log import LogPlace, whole_lines
from airflow_provider_ha.jobs.drivers.run_logs import choose, find_log, hide_secrets, reader
from airflow_provider_ha.jobs.drivers.run_logs import follow as follow_log
from airflow_provider_ha.jobs.drivers.spark_release import installed_spark
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.model import QueryStatus
from airflow_provider_ha.jobs.move.move_records import read_moved
from airflow_provider_ha.jobs.options.conf import engine_options, keys_of, named_spark_home, site_defaults
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.run_history import RUNS, read_history
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.jobs.runs.watchers import watched
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.redaction import PublicText


app = typer.Typer(help="Submit, inspect, stop, restore and move jobs.", no_args_is_help=True)


@app.command("list")
def list_jobs(
    context: typer.Context, watch: Watch = False, interval: Interval = INTERVAL, as_json: AsJson = False
) -> None:
    """List the jobs of the cluster with their state. Exit 0, even without a job."""
    with cluster(context, as_json=as_json) as client:
        repeated(lambda: _list(client, as_json=as_json), interval if watch else None)


def _list(client: HaClient, *, as_json: bool) -> None:
    shown = JobListView(jobs=tuple(_row(client, job_id) for job_id in client.list_jobs()))
    if as_json:
        console.print_json(shown)
        return
    console.print_table(
        ("JOB", "STATE", "RUN", "EPOCH", "LEADER", "CHECKPOINT"),
        ([row.job_id, row.state, row.run, row.epoch, row.leader, row.checkpoint] for row in shown.jobs),
        empty="no job is known in this cluster",
    )


@app.command()
def show(
    context: typer.Context,
    job_id: JobId,
    watch: Watch = False,
    interval: Interval = INTERVAL,
    as_json: AsJson = False,
) -> None:
    """Show one job: state, leader, run, last failure, next attempt, and queries, even before their start.

    Also shows the process that watches it and resubmits a lost driver; warns if there is none, with a remedy. For a
    moved job: its new cluster, and the time of the move.

    Exit 1: the job does not exist.
    """
    with cluster(context, as_json=as_json) as client:
        repeated(lambda: _show(client, job_id, as_json=as_json), interval if watch else None)


def _show(client: HaClient, job_id: str, *, as_json: bool) -> None:
    job = client.job(job_id)
    snapshot = job.snapshot()
    options = _options(job, snapshot)
    condition = decide(snapshot, options, client.clock.now())
    living = job.standbys(snapshot) if options is None or options.standby_drivers else ()
    watching = watched(client.coordinator, client.paths.job(job_id))
    found = read_moved(client.coordinator, client.paths.job(job_id))
    moved = found[0] if found is not None else None
    shown = job_view(snapshot, condition, watching, moved, standbys_view(snapshot, options, living))
    if as_json:
        console.print_json(shown)
        return
    fields = shown.to_json()
    for name in ("queries", "not_started", "warning"):
        del fields[name]
    fields["failure"] = condition.last.sentence if condition.last is not None else None
    fields["watched_by"] = watching.sentence or None
    fields["standbys"] = shown.standbys.sentence or None
    fields["moved"] = f"the job {moved.sentence}" if moved is not None else None
    for name, query in shown.queries.items():
        if query.state_restore is not None:
            fields[f"state of {name}"] = query.state_restore.sentence
    console.print_fields(fields)
    rows = [("yes", name, query) for name, query in shown.queries.items()]
    rows += [("not yet", name, query) for name, query in shown.not_started.items()]
    console.print_table(
        ("QUERY", "STARTED", "COMMITTED", "PLANNED", "BATCH", "ROWS/S", "LAG", "SINK"),
        (
            [name, started, query.committed, query.planned, *_figures(query), query.sink]
            for started, name, query in rows
        ),
        empty="no query has started yet",
    )
    if shown.standbys.drivers:
        console.print_table(
            ("STANDBY DRIVER", "HOST", "PID", "LEVEL", "SINCE", "MEMORY", "NOTE", "LOG"),
            (
                [
                    each.standby_id,
                    each.host or "-",
                    each.pid or "-",
                    each.level.value,
                    f"{each.since:%Y-%m-%d %H:%M:%S}",
                    f"{each.memory / 1e6:,.0f} MB" if each.memory else "-",
                    each.note,
                    _place_of(each.log),
                ]
                for each in shown.standbys.drivers
            ),
            empty="",
        )
    if shown.warning:
        console.out.print(f"[bold yellow]warning[/] {console.escaped(shown.warning)}")


@app.command()
def graph(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show the persisted job graph. Values of Spark conf and environment are not shown: they may be secrets."""
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        shown = _graph(client, job, job.snapshot())
    console.show(shown, as_json=as_json)


def _row(client: HaClient, job_id: str) -> JobRow:
    # An unreadable job must not hide the others (FLINK-5193).
    try:
        return job_row(client.job(job_id).snapshot())
    except HaError as error:
        return unreadable_row(job_id, error)


def _figures(query: QueryStatus) -> tuple[str | None, str | None, int | None]:
    """Return the newest batch's duration, its input rate, and the backlog of the query."""
    seconds, rate = query.batch_seconds, query.input_rate
    return (
        f"{seconds:.1f} s" if seconds is not None else None,
        f"{rate:,.1f}" if rate is not None else None,
        query.lag,
    )


def _place_of(log: str) -> str:
    """Return the place of a log as that of the driver is shown: host and path of a file, else the URI."""
    handle = DriverHandle(engine="", log_uri=log)
    return f"{handle.log_host}:{handle.log_path}" if handle.log_host else handle.log_path


def _options(job: JobClient, snapshot: JobStatus) -> HaOptions | None:
    # The graph is in storage, which may be unavailable: the facts from ZooKeeper are shown anyway.
    try:
        return job.graph_of(snapshot.run.run).options if snapshot.run is not None else None
    except HaError:
        return None


def _site_conf(graph: JobGraph, client: HaClient) -> tuple[str, list[str]] | None:
    """Return the site's file on this host, with its keys; ``None`` if it is missing or unreadable.

    Drivers on a cluster read the file of their worker.
    """
    if not client.engines.runs_here(graph.target.engine):
        return None
    home = named_spark_home(engine_options(client.config, graph.target))
    path = site_defaults(home or installed_spark().home, os.environ)
    try:
        return None if path is None else (str(path), keys_of(path))
    except OSError:
        return None


def _graph(client: HaClient, job: JobClient, snapshot: JobStatus) -> GraphView:
    if snapshot.run is None:
        raise UnknownJobError(f"job {job.job_id!r} has no run yet", next_step="Submit it first")
    run = snapshot.run.run
    graph = job.graph_of(run)
    return graph_view(graph, sha256=run.graph.sha256, pointer=snapshot.graph, site_conf=_site_conf(graph, client))


@app.command()
def logs(
    context: typer.Context,
    job_id: JobId,
    run: Annotated[
        int | None, typer.Option(help="Number of the run; the newest when left out.", min=1, autocompletion=run_numbers)
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(help="Attempt of the run; the newest that was started when left out.", min=1)
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of the last lines are printed.", min=0)] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow new lines, including those of later attempts.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the log of a job's driver, without secrets. With --follow until its run is over.

    Exit 1: the job, run or attempt does not exist, or its log is not on this host; the error names the host and the
    path. With --json and --follow each line is one JSON document.
    """
    with cluster(context, as_json=as_json) as client:
        job = client.context(job_id)
        newest = job.snapshot().run
        view = newest if newest is not None and run is None else job.runs.get(run or 1)
        if not hide_secrets(job, view):
            console.err.print("The job graph cannot be read: only values that look like secrets are hidden.")
        submission = choose(job_id, view, attempt)
        printed = _PrintedLines(as_json=as_json, one_document=not follow)
        if follow:
            try:
                for place, part in follow_log(job, view, submission, lines=lines, note=printed.note):
                    printed.add(place, part)
            except KeyboardInterrupt:
                raise typer.Exit from None
            return
        place = find_log(job, view.run.number, submission)
        printed.add(place, "")
        for part in whole_lines(reader(job, place, lines=lines).now()):
            printed.add(place, part)
        printed.end()


class _PrintedLines:
    """Output on stdout: plain lines, one document, or one document per line. Notes go to stderr."""

    def __init__(self, *, as_json: bool, one_document: bool) -> None:
        self._as_json = as_json
        self._one_document = one_document
        self._lines: list[str] = []
        self._place: LogPlace | None = None
        self._public = PublicText()

    @staticmethod
    def note(text: str) -> None:
        """Print a note about the log on stderr."""
        console.err.print(console.escaped(text))

    def add(self, place: LogPlace, part: str) -> None:
        """Print a part of a log, preceded once by the name of the log."""
        if place != self._place:
            self._place, self._public = place, PublicText()
            self.note(f"attempt {place.attempt} of run {place.run}, {place.host}:{place.path}")
        text = self._public(part) if part else ""
        if not self._as_json:
            typer.echo(text, nl=False)
        elif self._one_document:
            self._lines += text.splitlines()
        else:
            for line in text.splitlines():
                console.print_line(LogLineView.of(place, line=line), as_json=True)

    def end(self) -> None:
        """Print the document at the end."""
        if self._as_json and self._place is not None:
            console.print_json(LogView.of(self._place, lines=self._lines))


@app.command()
def history(
    context: typer.Context,
    job_id: JobId,
    runs: Annotated[int, typer.Option(help="How many of the newest runs are shown.", min=1)] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Show the runs of a job, newest first: the leader of each epoch, its begin and end, and the reason of the change.

    Times are UTC. Exit 1: the job does not exist.
    """
    with cluster(context, as_json=as_json) as client:
        shown = history_view(read_history(client.coordinator, client.paths.job(check_job_id(job_id)), runs=runs))
    if as_json:
        console.print_json(shown)
        return
    console.print_table(
        ("RUN", "ATTEMPT", "EPOCH", "HOST", "PID", "FROM", "TO", "END", "REASON"),
        _rows(shown),
        empty=f"job {job_id} has no run yet",
    )
    for run in shown.runs:
        if run.left_out:
            console.out.print(f"{run.left_out} earlier attempts of run {run.run} are not shown")
    if shown.left_out:
        console.out.print(f"{shown.left_out} earlier runs are not shown: --runs shows more")
    for broken in shown.unreadable:
        console.err.print(f"{console.escaped(broken.name)} cannot be read: {console.escaped(broken.reason)}")


def _rows(shown: HistoryView) -> list[list[object]]:
    return [row for run in shown.runs for row in _rows_of_run(run)]


def _rows_of_run(run: RunHistoryView) -> list[list[object]]:
    return [
        [
            run.run,
            f"{epoch.attempt}, promoted standby driver" if epoch.standby else epoch.attempt,
            epoch.epoch,
            epoch.host,
            epoch.pid,
            f"{epoch.led_at or epoch.submitted_at:%Y-%m-%d %H:%M:%S}",
            f"{epoch.ended_at:%Y-%m-%d %H:%M:%S}" if epoch.ended_at else None,
            epoch.end,
            epoch.reason,
        ]
        for epoch in run.epochs
    ]


@app.command()
def leader(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show the leader of a job. Exit 0: there is one; 1: the job has no leader; 2: unknown."""
    with cluster(context, as_json=as_json) as client:
        snapshot = client.job(job_id).snapshot()
    shown = JobLeaderView.of(snapshot)
    if as_json:
        console.print_json(shown)
    elif shown.leader is None:
        console.out.print(f"{job_id} has no leader; its last epoch was {shown.epoch}")
    else:
        console.print_fields({"job": job_id, **shown.leader.to_json()})
    answer(yes=shown.leader is not None)
