"""Children of a node by their names: the only module that converts a node's name to a number or an id.

Invariant: a stray node stops nothing. A child whose name this package never assigns (``checkpoints/foo``) is skipped,
never changed, and logged once per process. A node with a valid name that cannot be read is different: it may be the
newest of its kind, so it is reported as unreadable (contract 6).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import lru_cache

from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.names import RESERVED_JOB_IDS, check_job_id, check_name


log = logging.getLogger(__name__)

_REMEMBERED = 4096  # strays that are logged once; a tree with more has other problems


def node_number(name: str, *, digits: int = 0) -> int | None:
    """Return the number in a node's name; ``None`` for any other name.

    Each number has exactly one name: ``7`` for a run, 19 digits for a checkpoint. ``07`` and digits of other scripts
    are strays.

    :param digits: Length of the name, if it is padded with zeros.
    """
    if not (name.isascii() and name.isdecimal() and len(name) <= CHECKPOINT_DIGITS):
        return None
    number = int(name)
    return number if name == str(number).zfill(digits) else None


def node_numbers(names: Iterable[str], *, parent: str, digits: int = 0) -> list[int]:
    """Return the numbers of this package's children, ascending: run 10 is newer than run 9 (FLINK-6284).

    :param parent: Path of their parent, for the log.
    """
    own = ours(names, lambda name: node_number(name, digits=digits) is not None, parent=parent)
    return sorted(int(name) for name in own)


def is_checkpoint(name: str) -> bool:
    """Return whether a child of ``checkpoints`` is a checkpoint's pointer."""
    return node_number(name, digits=CHECKPOINT_DIGITS) is not None


def is_plain(name: str) -> bool:
    """Return whether users may give this name to a savepoint, an operation or a schedule."""
    try:
        check_name(name, "name")
    except ConfigurationError:
        return False
    return True


def is_job(name: str) -> bool:
    """Return whether a child of a cluster's node is a job."""
    try:
        check_job_id(name)
    except ConfigurationError:
        return False
    return True


def ours(names: Iterable[str], is_ours: Callable[[str], bool], *, parent: str) -> list[str]:
    """Return this package's names, in their order; log the others once per process.

    :param is_ours: Returns whether a name is valid.
    :param parent: Path of their parent, for the log.
    """
    found = []
    for name in names:
        if is_ours(name):
            found.append(name)
        elif name not in RESERVED_JOB_IDS:
            report_stray(f"{parent}/{name}", "this package gives no such name")
    return found


@lru_cache(maxsize=_REMEMBERED)
def report_stray(path: str, reason: str) -> None:
    """Log a node that is left unchanged, once per process."""
    log.warning(
        "znode %s is foreign and is left alone: %s. See it with `spark-ha cluster tree`; remove it by hand",
        path,
        reason,
    )
