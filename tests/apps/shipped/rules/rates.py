"""Functions for the workers; the data file lies beside this module, so an import out of a zip would not find it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


SCHEMA = "value string, word string, file string"


def found(line: str) -> tuple[str, str, str]:
    """Return the line with the rate, the words of a module and of a wheel, and where this module is."""
    import from_wheel  # in the worker
    import near  # the same

    rate = Path(__file__).with_name("rate.txt").read_text().strip()
    return f"{line} {rate}", f"{near.WORD}, {from_wheel.WORD}", __file__


def of_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """``mapInPandas``."""
    for frame in frames:
        yield pd.DataFrame([found(line) for line in frame["value"]], columns=["value", "word", "file"])


def with_state(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """``applyInPandasWithState``."""
    state.update((sum(len(frame) for frame in frames),))
    yield pd.DataFrame([found(key[0])], columns=["value", "word", "file"])


class Processor(StatefulProcessor):
    """``transformWithStateInPandas``; its first batch is prepared in a separate worker."""

    def init(self, handle: Any) -> None:
        """Keep the handle."""
        self._handle = handle

    def handleInputRows(  # noqa: N802  # pyspark's name
        self, key: Any, rows: Iterator[pd.DataFrame], timer_values: Any
    ) -> Iterator[pd.DataFrame]:
        """Return what was found for the key."""
        del timer_values
        for _ in rows:
            pass
        yield pd.DataFrame([found(key[0])], columns=["value", "word", "file"])

    def close(self) -> None:
        """Nothing to do."""
