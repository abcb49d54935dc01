"""On which releases each rule of a verdict was seen: the release was started on a damaged copy, or its source was read.

Invariant: the page of the releases says the same (held by a test).
"""

from __future__ import annotations

from dataclasses import dataclass


_ALL = "3.2.4, 3.3.4, 3.4.4, 3.5.9, 4.0.5, 4.1.4, 4.2.0, 4.3.0"
_BEFORE_4_1 = "3.2.4, 3.3.4, 3.4.4, 3.5.9, 4.0.5"
_SINCE_4_0 = "4.0.5, 4.1.4, 4.2.0, 4.3.0"
_SINCE_4_1 = "4.1.4, 4.2.0, 4.3.0"


@dataclass(frozen=True, slots=True)
class Seen:
    """One rule.

    :param rule: What Spark does, as a clause.
    :param releases: Which were started to see it.
    """

    rule: str
    releases: str


SEEN = (
    Seen("A query id that is no UUID ends the start; what follows the id is not read", _ALL),
    Seen("A pinned conf value that the release cannot read ends the start", _ALL),
    Seen("A codec that is none ends the start where state is compressed with it", _ALL),
    Seen("Commits without offsets: the first commit fails, or all rows are written again", _BEFORE_4_1),
    Seen("Without asynchronous tracking, `offsets/<N-1>` is needed", _ALL),
    Seen("A delta, a changelog, or a zip without changelogs above the needed version is written over", _ALL),
    Seen("A snapshot above the needed version is loaded by a later start", _ALL),
    Seen(
        "A zip above the needed version, beside changelogs, is loaded by a later start",
        "3.5.9, 4.0.5, 4.1.4, 4.2.0, 4.3.0",
    ),
    Seen("A snapshot above the needed version that is cut ends a later start", f"{_BEFORE_4_1}, 4.1.4"),
    Seen("A snapshot above the needed version that is cut is passed over", "4.2.0, 4.3.0"),
    Seen("A zip far above has the state that the query needs purged", "3.4.4"),
    Seen("A join needs all its four stores", _ALL),
    Seen("Operator metadata of version 1 that is gone or cut is passed over", _SINCE_4_0),
    Seen("A join with state format 3 needs its operator metadata, and writes a schema that is gone again", _SINCE_4_1),
    Seen("A zip of 4.0 with checkpoint format 2 is refused by later releases", "4.2.0"),
    Seen(
        "A zip of format 2 that a JVM of 4.0 wrote beside format 1 is refused by one that has format 2 alone", "4.0.5"
    ),
    Seen("A zip of format 2 that a JVM of 4.0 wrote beside format 1 is read by later releases", "4.1.4"),
    Seen("The rate source needs its first offset", "3.4.4, 3.5.9, 4.0.5, 4.1.4, 4.2.0, 4.3.0"),
)
