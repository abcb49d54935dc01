"""Conf that OpenLineage's listener in Spark takes: which task submitted the run, and where it sends its events to.

It lies beside the conf of the job, in the graph of its run. So a run that is recovered, by any process, keeps the
parent that submitted it, and a try of a task that has another run id asks for the same job. It holds no secret: the
graph lives for months, and a key that is replaced later would still be in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit


_PARENT = ("spark.openlineage.parent", "spark.openlineage.rootParent")
_TRANSPORT = ("spark.openlineage.transport",)
_SECRET = ("auth.", "headers.")


def counted(lineage: Mapping[str, str], given: Collection[str]) -> dict[str, str]:
    """Return what of *lineage* counts beside the conf keys *given*. Pure.

    Of the parent and of the transport each all or nothing, as in Airflow's Spark provider: the address of one
    transport never meets the key of another.
    """
    found = dict(lineage)
    for group in (_PARENT, _TRANSPORT):
        if any(key.startswith(group) for key in given):
            found = {key: value for key, value in found.items() if not key.startswith(group)}
    return found


def of_another_request(lineage: Mapping[str, str]) -> dict[str, str]:
    """Return what of a run's *lineage* holds for a run that another request makes: never its parent. Pure."""
    return {key: value for key, value in lineage.items() if not key.startswith(_PARENT)}


def merged(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the lineage of a run that is made from the graph of another one. Pure.

    :param old: Of that graph.
    :param new: Of the request; its transport takes the place of the old one.
    """
    return {**counted(of_another_request(old), new), **new}


def secrets_in(transport: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of a transport that hold a secret, or may: keys, headers, and a URL with a login. Pure."""
    return tuple(sorted(key for key, value in transport.items() if _is_secret(key, value)))


def _is_secret(key: str, value: str) -> bool:
    if not key.startswith(_TRANSPORT):
        return False
    name = key.removeprefix(_TRANSPORT[0])
    if any(f".{part}" in name for part in _SECRET):
        return True
    parts = urlsplit(value)
    return "@" in parts.netloc or bool(parts.query)
