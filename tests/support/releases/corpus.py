"""Real checkpoints of every release, made once per machine by that release and kept in ``build/test-cache``.

``<release>/<shape>-<stamp>/checkpoint``, ``input`` and, for a query without state, ``out``. Invariant: nothing in the
cache is ever changed. A test copies a shape, and damages the copy.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import inspect
import re
import shutil
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.releases.installed import ROOT, Spark, run_program
from tests.support.releases.shapes import BY_NAME, LONG, SHAPES, Shape, truth
from tests.support.spark.corpus import NEXT_FILE, rows_of, write_input


QUERIES = Path(__file__).with_name("queries.py")
PANDAS = Path(__file__).with_name("processors.py")  # what the processor is on 4.0
# Without links: source logs hold absolute paths, and clones may share one cache.
RESTARTS = 3  # the most starts of one copy, with a new file each
TRIES = 5
# The version at which maintenance makes its one snapshot of five; by the suffixes of increments and of snapshots.
_SNAPSHOT_AT = {(".delta", ".snapshot"): 4, (".changelog", ".zip"): 3}
CACHE = (ROOT / "build" / "test-cache").resolve() / "releases-corpus"


def shapes_of(spark: Spark) -> list[Shape]:
    """Return what *spark* is recorded with."""
    return [shape for shape in SHAPES if shape.recorded_by(spark)]


def recorded(spark: Spark, shapes: Sequence[Shape] | None = None) -> Path:
    """Return the folder of what *spark* recorded; what is not there yet is made. Skips the test where it cannot run.

    :param shapes: What has to be there; everything that the release is recorded with when not given.
    """
    made = CACHE / spark.version
    made.mkdir(parents=True, exist_ok=True)
    with (made / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = shapes or shapes_of(spark)
        for _ in range(TRIES):
            missing = [shape for shape in wanted if not _is_recorded(shape, place_of(spark, shape))]
            if not missing:
                return made
            for by_id in (False, True):
                together = [shape for shape in missing if shape.by_id is by_id]
                if together:
                    _record(spark, together)
    raise AssertionError(f"the machine is too busy to record {[shape.name for shape in missing]} of {spark.version}")


def _is_recorded(shape: Shape, place: Path) -> bool:
    """Whether a recording is complete, with its snapshot where an idle machine has it.

    Maintenance that is late makes another one, and a damage of the same name then is another damage.
    """
    if not (place / "complete").exists():
        return False
    names = [path.name for path in (place / "checkpoint" / "state" / "0" / "0").glob("[0-9]*")]
    if shape.files < LONG or shape.more:
        return True
    for (increments, snapshots), version in _SNAPSHOT_AT.items():
        if any(name.endswith(increments) for name in names):
            return {int(re.split("[._]", name)[0]) for name in names if name.endswith(snapshots)} == {version}
    return True


def place_of(spark: Spark, shape: Shape) -> Path:
    """Return where *shape* is kept: another query, conf or input is another place."""
    by_id = ["a JVM of its own"] if shape.by_id else []  # codespell:ignore  # its text is part of recorded names
    query = repr((shape.kind, shape.conf, shape.files, shape.more, *by_id))
    own = _code(PANDAS.read_text()) if shape.kind == "processor" and spark.short == (4, 0) else ""
    stamp = hashlib.sha256((written_by() + query + own).encode()).hexdigest()[:12]
    return (CACHE / spark.version / f"{shape.name}-{stamp}").resolve()


@cache
def written_by() -> str:
    """Return what records: the queries and their input. The same under every Python."""
    return _code(QUERIES.read_text()) + _code(inspect.getsource(rows_of))


def _code(source: str) -> str:
    """Return what a source does: without comments, docstrings and annotations, which change no checkpoint."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef | ast.Module) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return " ".join(f"{type(node).__name__} {_named(node)}" for node in ast.walk(tree))


def _named(node: ast.AST) -> str:
    """Return the name or the value that a node stands for."""
    return " ".join(
        repr(getattr(node, field)) for field in ("id", "attr", "arg", "name", "value") if _plain(node, field)
    )


def _plain(node: ast.AST, field: str) -> bool:
    return hasattr(node, field) and not isinstance(getattr(node, field), ast.AST)


def _record(spark: Spark, shapes: list[Shape]) -> None:
    places = [place_of(spark, shape) for shape in shapes]
    for shape, place in zip(shapes, places, strict=True):
        shutil.rmtree(place, ignore_errors=True)
        (place / "input").mkdir(parents=True)
        for number in range(shape.files):
            write_input(place / "input", number)
    tasks = [task(shape, place) for shape, place in zip(shapes, places, strict=True)]
    answers = run_program(spark, "make", tasks, CACHE / spark.version)
    for shape, place, answer in zip(shapes, places, answers, strict=True):
        if shape.files:
            # Files that the checkpoint does not know: a query that starts from a copy names those that it goes on with.
            for number in range(NEXT_FILE, NEXT_FILE + RESTARTS):
                write_input(place / "input", number)
        if not answer["error"]:
            (place / "complete").touch()
    failed = {shape.name: answer["error"] for shape, answer in zip(shapes, answers, strict=True) if answer["error"]}
    assert failed == {}, f"Spark {spark.version} did not record {failed}"


def task(shape: Shape, place: Path, checkpoint: Path | None = None) -> dict[str, Any]:
    """Return what the program is told to record *shape*, or to go on with a copy of its checkpoint.

    :param place: Where the shape was or is to be recorded.
    """
    out = str(place / "out") if shape.kind == "stateless" and checkpoint is None else ""
    source = inputs(place, [*range(shape.files), NEXT_FILE]) if checkpoint else str(place / "input")
    told = {"kind": shape.kind, "conf": shape.conf, "input": source, "out": out, **shape.more}
    return told | {"checkpoint": str(checkpoint or place / "checkpoint")}


def inputs(place: Path, numbers: Iterable[int]) -> str:
    """Return a path for Spark that names these input files of a place and no others."""
    names = ",".join(f"{number:03d}" for number in numbers)
    return str(place / "input" / f"{{{names}}}.json")


def judge(spark: Spark, recorder: Spark, cases: list[tuple[str, Path]], scratch: Path) -> list[str]:
    """Start *spark* on each (shape, copy) of what *recorder* made: ``"right"``, ``"wrong: ..."`` or ``"failed: ..."``.

    :param scratch: A directory of the test's own.
    """
    recorded(recorder)
    ids = [_query_id(copy) for _, copy in cases]
    tasks = [task(BY_NAME[name], place_of(recorder, BY_NAME[name]), copy) for name, copy in cases]
    answers: dict[int, dict[str, Any]] = {}
    for by_id in (False, True):
        together = [number for number, (name, _) in enumerate(cases) if BY_NAME[name].by_id is by_id]
        if together:
            said = run_program(spark, "judge", [tasks[number] for number in together], scratch)
            answers |= dict(zip(together, said, strict=True))
    outcomes = [_outcome(answers[number], BY_NAME[name]) for number, (name, _) in enumerate(cases)]
    # Going on under another id is no start: a sink that knows the old one takes every replayed row twice.
    return [
        "wrong: it goes on under another query id" if outcome == "right" and _query_id(copy) != known else outcome
        for outcome, known, (_, copy) in zip(outcomes, ids, cases, strict=True)
    ]


def _query_id(checkpoint: Path) -> str:
    path = checkpoint / "metadata"
    return path.read_text() if path.exists() else ""


def _outcome(answer: dict[str, Any], shape: Shape) -> str:
    if answer["error"]:
        return f"failed: {answer['error']}"
    rows, expected = (sorted(found, key=_key) for found in (answer["rows"], truth(shape)))
    # The batch in flight is executed again: only a query without state says its rows, and no others, once more.
    again = rows_of(shape.files - 1) if shape.kind == "stateless" else []
    right = rows in (expected, sorted([*expected, *again], key=_key))
    return "right" if right else f"wrong: {rows} instead of {expected}"


def _key(row: dict[str, Any]) -> str:
    return str(sorted(row.items()))
