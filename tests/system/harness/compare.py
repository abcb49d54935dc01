"""Compares what the job wrote with the truth, row for row.

The JSON output is read as Spark itself reads it, through the sink's log ``_spark_metadata``: files that no log entry
names are no part of the output. The log is read here by hand, so that nothing of the package judges itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from tests.system.harness.outputs import LocalOutput, Output
from tests.system.harness.truth import HOURLY_VALUES, DelayKey, HourKey, Truth


KeyT = TypeVar("KeyT", bound=tuple[Any, ...])

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a result differs from the truth.

    :param name: What was compared.
    :param expected: Rows of the truth.
    :param found: Rows of the result.
    :param missing: Keys of the truth that the result does not have.
    :param unexpected: Keys of the result that the truth does not have.
    :param duplicated: Rows whose key was there before.
    :param wrong: Keys that both have, with different values.
    :param examples: A few of the differences, for people.
    """

    name: str
    expected: int
    found: int
    missing: int
    unexpected: int
    duplicated: int
    wrong: int
    examples: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the result is the truth: nothing missing, nothing twice, nothing else."""
        return not (self.missing or self.unexpected or self.duplicated or self.wrong)

    @property
    def verdict(self) -> str:
        """One line for a table."""
        if self.holds:
            return "equal"
        return (
            f"{self.missing} missing, {self.unexpected} unexpected, {self.duplicated} duplicated, {self.wrong} wrong; "
            f"for example {'; '.join(self.examples)}"
        )


def compare_hourly(truth: Truth, output: Output, *, name: str = "hourly_delays") -> Comparison:
    """Compare the JSON files of ``hourly_delays`` in *output*."""
    return compare_rows(name, truth.hourly, read_hourly(output))


def compare_new_hours(truth: Truth, output: Output, before: Output, *, name: str) -> Comparison:
    """Compare an output that holds only the hours after *before*: every hour from there to its last one, each once."""
    had = {key for key, _ in read_hourly(before)}
    rows = list(read_hourly(output))
    last = max((key[0] for key, _ in rows), default="")
    expected = {key: values for key, values in truth.hourly.items() if key not in had and key[0] <= last}
    return compare_rows(name, expected, rows)


def compare_long_delays(truth: Truth, table: Path, *, name: str = "long_delays") -> Comparison:
    """Compare the SQLite file of ``long_delays``."""
    return compare_rows(name, truth.long_delays, read_long_delays(table))


def read_hourly(output: Output) -> Iterator[tuple[HourKey, tuple[object, ...]]]:
    """Yield every row of the JSON output, in no order, duplicates included."""
    for uri in named_files(output.log()):
        for line in output.text(uri).splitlines():
            row = json.loads(line)
            yield (
                (row["hour"], row["origin"], row["carrier"]),
                tuple(row.get(column) for column in HOURLY_VALUES),
            )


def read_long_delays(table: Path) -> Iterator[tuple[DelayKey, int]]:
    """Yield every row of the table."""
    with closing(sqlite3.connect(f"file:{table}?mode=ro", uri=True)) as database:
        for row in database.execute("SELECT * FROM long_delays"):
            yield row[:8], row[8]


def sink_files(output: Path) -> list[Path]:
    """Return the files that the sink's log says are part of the directory *output*."""
    return [Path(unquote(urlsplit(uri).path)) for uri in named_files(LocalOutput(output).log())]


def named_files(log: Mapping[str, str]) -> list[str]:
    """Return the URIs that a sink's log names, from its entries by name."""
    numbers = {int(name.split(".")[0]): name for name in log}
    compacted = max((number for number, name in numbers.items() if name.endswith(".compact")), default=0)
    files: dict[str, None] = {}
    for number in sorted(number for number in numbers if number >= compacted):
        for line in log[numbers[number]].splitlines()[1:]:
            entry = json.loads(line)
            if entry["action"] == "delete":
                files.pop(entry["path"], None)
            else:
                files[entry["path"]] = None
    return list(files)


def compare_rows(name: str, expected: Mapping[KeyT, object], rows: Iterable[tuple[KeyT, object]]) -> Comparison:
    """Compare rows with what they must be, by key."""
    seen: dict[KeyT, object] = {}
    found = duplicated = unexpected = wrong = 0
    examples: list[str] = []
    for key, value in rows:
        found += 1
        if key in seen:
            duplicated += 1
            examples.append(f"{key} is there twice")
        elif key not in expected:
            unexpected += 1
            examples.append(f"{key} should not be there")
        elif expected[key] != value:
            wrong += 1
            examples.append(f"{key} is {value}, not {expected[key]}")
        seen[key] = value
    missing = [key for key in expected if key not in seen]
    examples += [f"{key} is missing" for key in missing[:_EXAMPLES]]
    return Comparison(
        name, len(expected), found, len(missing), unexpected, duplicated, wrong, tuple(examples[:_EXAMPLES])
    )
