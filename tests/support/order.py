"""In which order the files of tests run: Spark needs the processor where others wait, so it runs beside them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar


File = TypeVar("File", bound=Hashable)


def spread(files: Sequence[File], heavy: Collection[File], short: Collection[File]) -> list[File]:
    """Return *files* with the *heavy* ones at equal distances among the others, and the *short* ones at the end. Pure.

    The short ones let all test processes end at one time.
    """
    weighty = [file for file in files if file in heavy]
    others = [file for file in files if file not in heavy and file not in short]
    place = {file: (number / len(others), 1) for number, file in enumerate(others)}
    place |= {file: (number / len(weighty), 0) for number, file in enumerate(weighty)}
    ordered = sorted(place, key=place.__getitem__)
    return [*ordered, *(file for file in files if file not in place)]
