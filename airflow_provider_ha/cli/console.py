"""Output of the command: tables for people, one JSON document for programs, errors on stderr.

Errors and recorded reasons name options as an operator writes them. An error carries the names that its text has, and
is shown with the options of the command; recorded reasons are shown unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.tree import Tree

from airflow_provider_ha.api.documents.view import ErrorDocument, View, error_view
from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.query_names import shown


class _People(Console):
    """Console that shows names of queries as their script does. Output for programs uses :meth:`out`, from views."""

    def print(self, *said: Any, **how: Any) -> None:
        """Print texts with such names, and other values unchanged."""
        super().print(*(shown(each) if isinstance(each, str) else each for each in said), **how)


out = _People(soft_wrap=True, highlight=False)
err = _People(stderr=True, soft_wrap=True, highlight=False)
_ONE_LINE = 10_000  # columns
# A JSON record has its moments with microseconds.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_DIGEST, _DIGEST_SHOWN = re.compile("[0-9a-f]{64}"), 12  # as in `spark-ha cluster tree`
_NONE = "-"
_FRACTION = re.compile(r"\.\d+")


def print_json(document: View | Mapping[str, Any]) -> None:
    """Print *document* as JSON."""
    out.out(json.dumps(document.to_json() if isinstance(document, View) else document, indent=2, default=str))


def show(document: View, people: Callable[[], None] | None = None, *, as_json: bool) -> None:
    """Print a document: as JSON, by *people*, or as its fields."""
    if as_json:
        print_json(document)
    elif people is not None:
        people()
    else:
        print_fields(document.to_json())


def _plain(value: Any) -> Any:
    """Return *value* with records as dictionaries."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print *rows*, or the sentence *empty* without rows."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    count = 0
    for row in rows:
        table.add_row(*(_cell(item) for item in row))
        count += 1
    if count:
        _print_wide(table)
    else:
        out.print(empty)


def print_fields(fields: dict[str, object]) -> None:
    """Print names and values, one pair per line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        table.add_row(name, _cell(value))
    _print_wide(table)


def print_tree(tree: Tree) -> None:
    """Print a tree. A terminal folds long lines below their node; a file or a pipe gets each node in one line."""
    _print_wide(tree)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of the block on stderr, at a terminal only.

    :returns: Function to call after each step with the number of steps done and the total.
    """
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def phases(*, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Show the phase of a wait on stderr: one line that changes at a terminal, otherwise one line per change.

    :param quiet: Show nothing: a program reads the answer.
    :returns: Function to call repeatedly with the phase and the seconds since the wait began.
    """
    if quiet:
        yield lambda *_: None
    elif err.is_terminal:
        with err.status("waiting") as status:
            yield lambda phase, seconds: status.update(f"{seconds:.0f} s  {escaped(phase)}")
    else:
        said: list[str] = []

        def say(phase: str, seconds: float) -> None:
            if said[-1:] != [phase]:
                said.append(phase)
                err.print(f"{seconds:.0f} s  {phase}", markup=False)
                err.file.flush()

        yield say


def print_line(line: View, *, as_json: bool) -> None:
    """Print an event immediately: for a command that keeps running."""
    fields = line.to_json()
    text = json.dumps(fields) if as_json else "  ".join(_cell(value) for value in fields.values())
    out.out(text) if as_json else out.print(text)
    out.file.flush()


def print_error(error: HaError, *, as_json: bool) -> None:
    """Print the error and the next step: on stderr for people, and as a document on stdout for programs."""
    text = str(error)
    for name in error.options:
        text = text.replace(name, option_word(name))
    err.print(f"[bold red]error[/] {escaped(text)}")
    if as_json:
        print_json(ErrorDocument(error=error_view(error)))


def option_word(name: str) -> str:
    """Return the option of the command for an option of the operators: ``--start-from`` for ``start_from``."""
    return f"--{name.replace('_', '-')}"


def print_unreadable(pointers: Iterable[UnreadableRecord]) -> None:
    """Print the unreadable pointers, because any may be the newest."""
    for pointer in pointers:
        err.print(f"[bold red]unreadable[/] {escaped(pointer.name)}: {escaped(pointer.reason)}")


def cut_text(cut: dict[str, int]) -> str:
    """Return a cut as ``query=batch`` words."""
    return " ".join(f"{query}={batch}" for query, batch in sorted(cut.items()))


def _print_wide(table: Table | Tree) -> None:
    """Print a table: folded to the width of a terminal, and never cut for a file or a pipe."""
    wide = Console(file=out.file, highlight=False, width=None if out.is_terminal else _ONE_LINE)
    with wide.capture() as text:
        wide.print(table)
    # The last column is as wide as its longest value: lines get no trailing spaces.
    out.file.write("".join(f"{line.rstrip()}\n" for line in text.get().splitlines()))


def _cell(value: object) -> str:
    return escaped(shown(text_of(value)))


def text_of(value: object) -> str:
    """Return a value for people: no Python syntax, moments to the second, and a sha256 abbreviated.

    Composite values are written as ``name=value`` words, lists with commas, and empty values as a dash.
    """
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        value = _plain(value)
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_part(part)}" for name, part in value.items()) or _NONE
    if isinstance(value, list | tuple):
        return ", ".join(text_of(part) for part in value) or _NONE
    return _word(value) or _NONE


def _word(value: object) -> str:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = value.isoformat() if isinstance(value, datetime) else "" if value is None else str(value)
    if _MOMENT.fullmatch(text):
        return _FRACTION.sub("", text).replace("+00:00", "Z")
    return text[:_DIGEST_SHOWN] if _DIGEST.fullmatch(text) else text


def _part(value: object) -> str:
    """Return one value of several; in brackets where it would run into the next one."""
    text = text_of(value)
    return f"({text})" if isinstance(value, Mapping | list | tuple) and len(value) else text


def escaped(text: str) -> str:
    """Return *text*, escaped to print unchanged."""
    return text.replace("[", "\\[")
