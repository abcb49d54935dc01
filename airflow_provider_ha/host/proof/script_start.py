"""Start of a script's query on a copy, without its sink, for one batch without input.

The script runs up to the start of the checkpoint's query, where the process ends. So no ``finally``, ``__exit__``,
``atexit`` function or statement after a wait is executed: they would clean up resources of the running job. The
script's other queries are not started; the script gets the handle of an ended query instead. If the script waits for
such a query, it continues if a start may follow (:func:`may_start_again`), and otherwise ends there; an unknown case
continues, so that the proof finds the query. The script's trigger, sink and checkpoint location have no effect.
"""

from __future__ import annotations

import ast
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeAlias

from airflow_provider_ha.checkpoints.areas.drain import plan_empty_batch
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.places import is_local, local_path, output_place
from airflow_provider_ha.checkpoints.verify.proof_protocol import ProofEvent, ProofMessage, ProofRequest, SparkError
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver import context
from airflow_provider_ha.driver.queries.catalog_tables import location_of
from airflow_provider_ha.driver.queries.checked_writer import NOOP, WriterCalls
from airflow_provider_ha.driver.queries.patches import Patches
from airflow_provider_ha.driver.queries.query_naming import name_query
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.resting_queries import EndedQuery
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, notes
from airflow_provider_ha.driver.script import Lifecycle, Script
from airflow_provider_ha.driver.spark_conf import fit_state_format
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.query_names import query_directory


_STARTS = frozenset({"start", "toTable"})  # also of a thread
_Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_Named: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def may_start_again(directory: Path) -> bool:
    """Return whether the calling thread may reach a start of a query after its current statement.

    :param directory: Directory of the script and its modules.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # the public function reads the source of each frame
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(directory) and _goes_on(file, frame):
            return True
        frame = frame.f_back
    return False


def _goes_on(file: Path, frame: FrameType) -> bool:
    parsed = _parsed(file)
    return parsed is None or starts_after(parsed, frame.f_lineno, frame.f_code.co_firstlineno)


def starts_after(module: ast.Module, line: int, scope_line: int) -> bool:
    """Return whether execution at a line may reach a start after that line. Pure.

    :param line: The executed line.
    :param scope_line: First line of the function that contains it.
    """
    names = _starting_names(module)
    scope = _scope(module, line, scope_line)
    around = [node for node in _own_nodes(scope) if _holds(node, line)]
    loops = [node for node in around if isinstance(node, _LOOPS)]
    never = [other for node in around for other in _other_branches(node, line)]
    for node in _own_nodes(scope):
        if _mentions(node, names):
            at = getattr(node, "lineno", 0)
            if any(_holds(loop, at) for loop in loops):
                return True
            if at > line and not any(_holds(other, at) for other in never):
                return True
    return False


@cache
def _parsed(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _starting_names(module: ast.Module) -> frozenset[str]:
    """Return the names of functions and classes that contain a start, directly or through another such name."""
    known, found = frozenset({""}), frozenset[str]()
    named = [node for node in ast.walk(module) if isinstance(node, _Named)]
    while found != known:
        known = found
        found = known | {node.name for node in named if any(_mentions(each, known) for each in ast.walk(node))}
    return known


def _mentions(node: ast.AST, names: frozenset[str]) -> bool:
    """Return whether a node names a start or any of *names*; a plain variable may also be called ``start``."""
    if isinstance(node, ast.Attribute):
        return node.attr in _STARTS or node.attr in names
    return isinstance(node, ast.Name) and node.id in names


def _scope(module: ast.Module, line: int, scope_line: int) -> _Scope:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and _holds(node, line):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            if first == scope_line:
                return node
    return module


def _own_nodes(scope: _Scope) -> Iterator[ast.AST]:
    """Yield the nodes that a scope itself executes; a function defined there is executed by its name."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting.extend(ast.iter_child_nodes(node))


def _other_branches(node: ast.AST, line: int) -> list[ast.stmt | ast.ExceptHandler]:
    """Return the statements skipped after a line of a branch: ``else``, or the handlers after success."""
    if isinstance(node, ast.If) and any(_holds(each, line) for each in node.body):
        return list(node.orelse)
    if isinstance(node, ast.Try) and any(_holds(each, line) for each in node.body):
        return list(node.handlers)
    return []


def _holds(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)


_DEEPEST = 20
_LONGEST = 500  # characters of a message


def chain(error: BaseException) -> tuple[SparkError, ...]:
    """Return an error of pyspark from the outermost throwable to its cause."""
    throwable = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if throwable is None:
        return (SparkError(error_class=_condition(error) or type(error).__name__, message=_first_line(str(error))),)
    found: list[SparkError] = []
    while throwable is not None and len(found) < _DEEPEST:
        found.append(_read(throwable))
        throwable = throwable.getCause()
    return tuple(found)


def _read(throwable: Any) -> SparkError:
    name = str(throwable.getClass().getName())
    try:
        condition = throwable.getCondition()
    except Exception:  # noqa: BLE001  # only Spark's own throwables have one, and py4j has no other way to test that
        condition = None
    return SparkError(error_class=str(condition or name), message=_first_line(str(throwable.getMessage() or "")))


def _condition(error: BaseException) -> str | None:
    getter = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return getter() if getter is not None else None


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:_LONGEST]


_LOOK_SECONDS = 0.1
_OTHERS_SECONDS = 30.0


class ProvingStarter:
    """Starter of the wanted query, which reports the result and ends the process.

    :param script: Script that starts the query.
    :param say: Receives the answer.
    :param leave: Ends the process immediately.
    """

    def __init__(
        self,
        request: ProofRequest,
        script: Script,
        calls: WriterCalls,
        say: Callable[[ProofMessage], None],
        leave: Callable[[], NoReturn],
    ) -> None:
        self._request = request
        self._script = script
        self._calls = calls
        self._say = say
        self._leave = leave
        self._seen: list[str] = []
        self._passed: list[str] = []
        self._waiting: set[threading.Thread] = set()
        self._resting: set[threading.Thread] = set()
        self._found = threading.Lock()  # held from the start of the query onwards

    def start(self, writer: Any, path: str | None) -> Any:
        """Start the query of *writer* if it is the wanted one, and exit; else return the handle of an ended query."""
        noted = notes(writer)
        if self._request.query is not None and not noted.name:
            with suppress(ApplicationRefusedError):  # another query, because the wanted one has a name
                name_query(writer, path)
        if not is_wanted(self._request, noted):
            self._seen.append(noted.name or "(unnamed)")
            return EndedQuery(noted.name, self.wait)
        self._found.acquire()  # from now on no thread of the script gets an answer
        self._say(self._prove(writer, noted))
        return self._leave()

    def wait(self, what: str) -> None:
        """Return if the script must continue to reach the start of the query; else call :meth:`rest`.

        :param what: The object of the script's wait.
        """
        self._let_others_come()
        again = what in self._passed  # the script loops
        if again or not may_start_again(self._script.directory):
            self.rest("")
        self._passed.append(what)

    def _let_others_come(self) -> None:
        """Return when no other thread of the script may reach the start of the query, or after a short time."""
        me, end = threading.current_thread(), time.monotonic() + _OTHERS_SECONDS
        self._waiting.add(me)
        while self._others() - self._waiting - self._resting and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)
        with self._found:  # a thread that reached it keeps this lock
            self._waiting.discard(me)

    def _others(self) -> set[threading.Thread]:
        return {threading.main_thread(), *self._script.threads.left()} - {threading.current_thread()}

    def rest(self, failure: str) -> NoReturn:
        """Stop the calling thread of the script; the last thread answers that the query was not started.

        :param failure: Failure of the script; empty if it did not fail.
        """
        self._resting.add(threading.current_thread())
        while self._others() - self._resting:
            time.sleep(_LOOK_SECONDS)
        self._found.acquire()
        self._say(self._not_started(failure))
        self._leave()

    def _not_started(self, failure: str) -> ProofMessage:
        started = f"it starts {', '.join(self._seen)}" if self._seen else "it starts no query"
        why = failure or f"{self._script.name} has ended"
        wanted = self._request.query or self._request.original.rstrip("/").rpartition("/")[2]
        passed = f"; its code after the wait for {', '.join(self._passed)} was executed" if self._passed else ""
        return ProofMessage(
            event=ProofEvent.UNABLE, reason=f"query {wanted!r} was not started: {why}; {started}{passed}"
        )

    def _prove(self, writer: Any, noted: WriterNotes) -> ProofMessage:
        copy, name = self._request.copy_directory, noted.name or ""
        try:
            fit_state_format(writer._spark, LocalTree(copy))  # noqa: SLF001  # the session that made the writer
            self._calls.set_format(writer, NOOP)
            self._calls.trigger(writer, once=True)
            self._calls.option(writer, "checkpointLocation", str(copy))  # a patched call keeps the script's location
            writer.option("asyncProgressTrackingEnabled", "false")  # it knows no trigger for one batch
            handle = self._calls.start(writer, None)
            self._calls.await_termination(handle)
        except Exception as error:  # noqa: BLE001  # any exception of Spark is its answer
            return ProofMessage(event=ProofEvent.REFUSED, query=name, errors=chain(error))
        planned = self._request.batch + 1
        now = progress(LocalTree(copy))
        if now != Progress(planned, planned):
            return ProofMessage(
                event=ProofEvent.UNABLE, query=name, reason=f"the query ended at {now} instead of batch {planned}"
            )
        last = handle.lastProgress or {}
        operators = tuple(int(item["numRowsTotal"]) for item in last.get("stateOperators", []))
        return ProofMessage(event=ProofEvent.STARTED, query=name, operators=operators)


class ProvingPatches(Patches):
    """Patches of the pyspark calls of a script whose query is to be proven."""

    def __init__(self, starter: ProvingStarter) -> None:
        super().__init__(Lifecycle(), QueryRegistry(SystemClock()), starter)
        self._proving = starter

    def location_of_table(self, writer: Any, name: str) -> str | None:
        """Return the location of a table, existing or to be created; the proof does not write to it."""
        return location_of(writer, name)

    def _await_any(self, original: Callable[..., Any]) -> Callable[..., Any]:
        del original

        def await_any(_: Any, timeout: float | None = None) -> bool | None:
            self._proving.wait("any query")
            return None if timeout is None else True

        return await_any

    def _stop_session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        leave = super()._stop_session(original)

        def stop(session: Any) -> None:
            if not self._stops:
                self._proving.wait("the end of its session")
            leave(session)

        return stop


def start_query(request: ProofRequest, say: Callable[[ProofMessage], None], leave: Callable[[], NoReturn]) -> None:
    """Run the script until it starts the query, report the result, and end the process.

    :param request: Request that names the application.
    :param leave: Ends the process immediately.
    """
    application = request.application
    if application is None:
        return
    plan_empty_batch(request.copy_directory)
    script = Script(application.script, application.arguments)
    starter = ProvingStarter(request, script, WriterCalls.of_pyspark(), say, leave)
    ProvingPatches(starter).apply()
    os.environ[context.REHEARSAL_VARIABLE] = "1"
    context.install(context.DriverContext("", 0, 0, "", lambda: math.inf, rehearsal=True))
    starter.rest(script.run_main() or "")


def is_wanted(request: ProofRequest, noted: WriterNotes) -> bool:
    """Return whether a query is the checkpoint's: by the requested name, else by the script's location for it."""
    if request.query is not None:
        return request.query in {noted.name, query_directory(noted.name or "")}
    location = noted.options.get("checkpointlocation")
    if location is not None:
        return _place(location) == _place(request.original)
    return request.original.rstrip("/").rpartition("/")[2] in {noted.name, query_directory(noted.name or "")}


def _place(location: str) -> str:
    """Return the canonical form of a location that can be read here; another location is returned as given."""
    if is_local(location):
        return str(local_path(location).resolve())
    try:
        return output_place(location)
    except ConfigurationError:
        return location
