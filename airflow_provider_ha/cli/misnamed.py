"""Diagnosis of a path that is not a checkpoint: its actual content, and the probable intention of the user."""

from __future__ import annotations

import shlex
from contextlib import suppress

from airflow_provider_ha.checkpoints.format.layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.report import Report
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError


_SIGNS = {METADATA, OFFSETS, COMMITS}
_NOTHING_TO_JUDGE = frozenset({Code.UNREADABLE, Code.NOT_A_CHECKPOINT})
_SHOWN = 10  # children in the message


def refuse_misnamed(named: str, directory: Tree, report: Report) -> None:
    """Refuse a place whose verification found no checkpoint, if its content can be identified.

    :param named: The place as the user wrote it.
    :raises ConfigurationError: It is missing, not a directory, a savepoint, or contains checkpoints; the message names
        them.
    :raises StorageUnavailableError: The storage did not answer.
    """
    if not any(finding.path == "." and finding.code in _NOTHING_TO_JUDGE for finding in report.findings):
        return
    found = directory.fresh()
    if not found.is_directory():
        raise _missing(named, directory)
    _offer_what_it_holds(named, found)


def _missing(named: str, directory: Tree) -> ConfigurationError:
    what, next_step = directory.absence()
    return ConfigurationError(f"{named} {what}", next_step=f"{next_step}; nothing was judged")


def _offer_what_it_holds(named: str, directory: Tree) -> None:
    names = files.names(directory)
    base = named.rstrip("/")
    if MANIFEST in names:
        raise ConfigurationError(
            f"{named} is a savepoint, not a checkpoint of one query",
            next_step=f"Verify it with `spark-ha savepoint verify {shlex.quote(named)}`",
        )
    children = [name for name in names if not name.startswith(".") and _is_checkpoint(directory, name)]
    if not children:
        return
    more = f" and {len(children) - _SHOWN} more" if len(children) > _SHOWN else ""
    raise ConfigurationError(
        f"{named} is no checkpoint: it holds {'one' if len(children) == 1 else len(children)}, "
        f"{', '.join(children[:_SHOWN])}{more}",
        next_step=f"Verify one query: `spark-ha checkpoint verify {shlex.quote(f'{base}/{children[0]}')}`",
    )


def _is_checkpoint(directory: Tree, name: str) -> bool:
    with suppress(StorageUnavailableError):  # an unreadable child does not hide the others
        return bool(_SIGNS & set(files.names(directory, name)))
    return False
