"""``spark-ha job logs``: print the log of a job's driver, and follow it."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.api.documents.job import LogLineView, LogView
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import run_numbers
from airflow_provider_ha.cli.session import AsJson, JobId, cluster
from airflow_provider_ha.jobs.drivers.driver_log import LogPlace, whole_lines
from airflow_provider_ha.jobs.drivers.run_logs import choose, find_log, hide_secrets, reader
from airflow_provider_ha.jobs.drivers.run_logs import follow as follow_log
from airflow_provider_ha.redaction import PublicText


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
            console.err.print("The job graph cannot be read: only what looks like a secret is hidden.")
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
