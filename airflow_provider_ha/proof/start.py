"""Starts the query of a script on a copy, with no sink, for one batch that has no input.

The script runs up to the start of that query and no further. Its other queries are not started at all: they get a
handle that has ended. Nothing that the script says of trigger, sink or checkpoint location comes to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from airflow_provider_ha.checkpoints.connectors.places import is_local, local_path, output_place
from airflow_provider_ha.checkpoints.format.layout import Progress, progress
from airflow_provider_ha.checkpoints.proof.answers import Answer, Event
from airflow_provider_ha.checkpoints.proof.request import ProofRequest
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.working.drain import plan_empty_batch
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.patches import Patches
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.query_name import name_query
from airflow_provider_ha.driver.query_start import NOOP, WriterCalls
from airflow_provider_ha.driver.script import Script
from airflow_provider_ha.driver.spark_conf import fit_state_format
from airflow_provider_ha.driver.table_sink import location_of
from airflow_provider_ha.driver.writer_notes import WriterNotes, notes
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.proof.spark_errors import chain


class ScriptOver(BaseException):
    """Ends the script: the statements after the start are not needed. No ``except Exception`` keeps it going."""


class EndedQuery:
    """The handle of a query that was not started: for the script it has ended already."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.id = self.runId = ""
        self.isActive = False
        self.lastProgress = None
        self.recentProgress: list[Any] = []
        self.status = {"message": "not started", "isDataAvailable": False, "isTriggerActive": False}

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802  # pyspark's name
        """Return at once."""
        return None if timeout is None else True

    def processAllAvailable(self) -> None:  # noqa: N802  # pyspark's name
        """Return at once."""

    def stop(self) -> None:
        """Do nothing."""

    def exception(self) -> None:
        """Nothing went wrong."""


class ProvingStarter:
    """Starts the one query, and reports the result; raises :class:`ScriptOver` then.

    :param say: Gets the answer.
    """

    def __init__(self, request: ProofRequest, calls: WriterCalls, say: Callable[[Answer], None]) -> None:
        self._request = request
        self._calls = calls
        self._say = say
        self.seen: list[str] = []
        self.answered = False

    def start(self, writer: Any, path: str | None) -> Any:
        """Start the query of *writer* when it is the one; else return the handle of one that has ended."""
        noted = notes(writer)
        if self._request.query is not None and not noted.name:
            with suppress(ApplicationRefusedError):  # then it is not the one: that has a name
                name_query(writer, path)
        self.seen.append(noted.name or "(unnamed)")
        if not is_wanted(self._request, noted):
            return EndedQuery(noted.name)
        self.answered = True
        self._say(self._prove(writer, noted))
        raise ScriptOver

    def _prove(self, writer: Any, noted: WriterNotes) -> Answer:
        copy, name = self._request.copy_directory, noted.name or ""
        try:
            fit_state_format(writer._spark, LocalTree(copy))  # noqa: SLF001  # the session that made the writer
            self._calls.set_format(writer, NOOP)
            self._calls.trigger(writer, once=True)
            self._calls.option(writer, "checkpointLocation", str(copy))  # the patched one keeps a script's own location
            writer.option("asyncProgressTrackingEnabled", "false")  # it knows no trigger for one batch
            handle = self._calls.start(writer, None)
            self._calls.await_termination(handle)
        except Exception as error:  # noqa: BLE001  # any exception of Spark is its answer
            return Answer(event=Event.REFUSED, query=name, errors=chain(error))
        planned = self._request.batch + 1
        now = progress(LocalTree(copy))
        if now != Progress(planned, planned):
            return Answer(event=Event.UNABLE, query=name, reason=f"the query ended at {now} instead of batch {planned}")
        last = handle.lastProgress or {}
        operators = tuple(int(item["numRowsTotal"]) for item in last.get("stateOperators", []))
        return Answer(event=Event.STARTED, query=name, operators=operators)


class ProvingPatches(Patches):
    """The calls of pyspark that a script meets whose query is to be proven."""

    def __init__(self, starter: ProvingStarter) -> None:
        super().__init__(Lifecycle(), QueryRegistry(SystemClock()), starter)

    def location_of_table(self, writer: Any, name: str) -> str | None:
        """Return where a table lies, or would be made: nothing is written to it."""
        return location_of(writer, name)

    def _await_any(self, original: Callable[..., Any]) -> Callable[..., Any]:
        del original
        return _over

    def _stop_session(self, _: Callable[..., Any]) -> Callable[..., Any]:
        return _over


def start_query(request: ProofRequest, say: Callable[[Answer], None]) -> None:
    """Run the script until it starts the query, and report the result.

    :param request: Names the application.
    """
    application = request.application
    if application is None:
        return
    plan_empty_batch(request.copy_directory)
    starter = ProvingStarter(request, WriterCalls.of_pyspark(), say)
    ProvingPatches(starter).apply()
    failure = Script(application.script, application.arguments).run()
    if starter.answered:
        return
    started = f"it starts {', '.join(starter.seen)}" if starter.seen else "it starts no query"
    why = failure if failure and ScriptOver.__name__ not in failure else f"{application.script.name} has ended"
    wanted = request.query or request.original.rstrip("/").rpartition("/")[2]
    say(Answer(event=Event.UNABLE, reason=f"query {wanted!r} was not started: {why}; {started}"))


def is_wanted(request: ProofRequest, noted: WriterNotes) -> bool:
    """Whether a query is that of the checkpoint: by the name that was asked for, else by where the script keeps it."""
    if request.query is not None:
        return noted.name == request.query
    location = noted.options.get("checkpointlocation")
    if location is not None:
        return _place(location) == _place(request.original)
    return noted.name == request.original.rstrip("/").rpartition("/")[2]


def _place(location: str) -> str:
    """Return the one spelling of a place that can be read here; of another one, what was said."""
    if is_local(location):
        return str(local_path(location).resolve())
    try:
        return output_place(location)
    except ConfigurationError:
        return location


def _over(*_: Any, **__: Any) -> Any:
    raise ScriptOver
