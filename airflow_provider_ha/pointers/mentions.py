"""Digests in a record, also of kinds and fields that this release does not know.

Invariant: rather too many digests than too few. Every text of 64 hex digits counts, in any field; and bytes that differ
from the writer's are an error, because a digest in them may be damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.records import checksum


_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Mentions:
    """Digests and texts of a record.

    :param kind: Kind of the record.
    :param digests: Digests, of blobs and of other objects.
    :param graphs: The subset that certainly are blobs: job graphs, which refer to further blobs.
    :param fields: Texts by field name; the last one of equal names.
    """

    kind: str
    digests: frozenset[str]
    graphs: frozenset[str]
    fields: dict[str, str]


def mentions(data: bytes, source: str) -> Mentions:
    """Return the digests and texts of a record.

    :param source: Location, for the error.
    :raises RecordCorruptError: The data is not a record, or differs from its writer's data.
    """
    try:
        envelope = json.loads(data)
        kind, body = str(envelope["kind"]), envelope["body"]
        intact = checksum(body) == envelope["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordCorruptError(f"{source} does not hold a record ({error})") from error
    if not intact:
        raise RecordCorruptError(f"{source} has a wrong checksum")
    found = list(_texts("", body))
    return Mentions(
        kind=kind,
        digests=frozenset(text for _, text in found if _DIGEST.fullmatch(text)),
        graphs=frozenset(text for name, text in found if name in ("graph", "graph.sha256") and _DIGEST.fullmatch(text)),
        fields=dict(item for item in found if item[0]),
    )


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text with its field name; the name of a map's key is empty."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(name, item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield "", key
            yield from _texts(f"{name}.{key}" if name == "graph" else key, item)
