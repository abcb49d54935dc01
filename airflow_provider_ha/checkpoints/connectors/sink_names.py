"""Default query name, derived from the query's output: the same at every start."""

from __future__ import annotations

import hashlib
import re

from airflow_provider_ha.checkpoints.connectors.delta import DELTA
from airflow_provider_ha.checkpoints.model import QuerySink


_LONGEST = 60  # characters of the output in a name, before its digest


def name_after(identity: str) -> str:
    """Return the name of a query that writes to an output.

    :param identity: What distinguishes the output from all others (``SinkType.identity``).
    """
    last = re.sub(r"[^A-Za-z0-9._-]+", "-", identity.rstrip("/").rpartition("/")[2]).strip("-._") or "output"
    return f"{last[:_LONGEST].rstrip('-._')}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def name_by_sink(sink: QuerySink) -> str | None:
    """Return the default name for a sink's query; ``None`` if the record does not show how the script names the sink.

    A script may name a table of Iceberg by its path or by its name; topics are not recorded.
    """
    table = sink.table if sink.format is not None and sink.format.lower() == DELTA else None
    identity = sink.path or table
    return name_after(identity) if identity else None
