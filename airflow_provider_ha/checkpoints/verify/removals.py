"""Detection of removed state in checkpoint format 1, whose files do not record whether state existed.

A query without state has no state directory, and neither has one whose state directory was removed. Operators are
numbered without gaps, so a missing operator below another is noticed; the files do not show whether an operator with a
higher number ever existed. On a local file system, directory times do: Spark creates the content of a directory when
the query begins, and afterwards writes only below it. A directory younger than all its content was changed since.

Invariant: a time proves nothing. It makes the answer unknown, never no. Without times, the answer is unknown if all
state is missing, and single operators are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider_ha.checkpoints.format.layout import COMMITS, STATE, numbers
from airflow_provider_ha.checkpoints.trees.files import names
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings, Reason
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness, has_state_directory
from airflow_provider_ha.checkpoints.verify.subject import Subject


_GONE = "it is not there, and the logs do not show whether the query keeps state"
_NO_STATE = "no directory, for a query without state; `--depth prove` with the application decides"
_EMPTIED = "it is empty: left by a start that failed, or emptied"
_CHANGED = "files were removed from it, or added to it, after the last state was written"
_OPERATORS = "every stateful operator of the query; `--depth prove` with the application decides"


def check_removals(subject: Subject, removed: list[Reason], findings: Findings) -> None:
    """Report that the state, or a part without a reference to it, may have been removed.

    :param removed: Result of :func:`removals` for the checkpoint.
    """
    if subject.logs.next_base < 0:
        return
    if has_state_directory(subject.directory):
        for lacks in removed:
            findings.add(Finding(lacks.code, lacks.path, None, lacks.found, _OPERATORS, blocks=None))
    elif subject.kind is Statefulness.UNKNOWN:
        untouched = subject.directory.keeps_times and not removed
        # guard: removed-state-was-never-there
        findings.add(Finding(Code.STATE_UNKNOWN, STATE, None, _GONE, _NO_STATE, blocks=False if untouched else None))


def removals(subject: Subject) -> list[Reason]:
    """Return the apparent removals from a local checkpoint of format 1, judged by file times."""
    root = subject.directory
    if not root.keeps_times or any(entry.state_ids for entry in subject.logs.commits.values()):
        return []
    if not has_state_directory(root):
        # If the commits were removed too, that explains the time, and the query without state starts.
        untold = subject.kind is Statefulness.UNKNOWN and COMMITS in names(root)
        gone = untold and _is_youngest(root, "", names(root))
        return [Reason(Code.STATE_UNKNOWN, STATE, _GONE)] if gone else []
    emptied = [f"{STATE}/{number}" for number in numbers(root, STATE) if not names(root, f"{STATE}/{number}")]
    if emptied:
        return [Reason(Code.STATE_UNKNOWN, path, _EMPTIED) for path in emptied]
    partitions = (
        f"{STATE}/{operator}/{partition}"
        for operator in numbers(root, STATE)
        for partition in numbers(root, f"{STATE}/{operator}")
    )
    return [Reason(Code.STATE_UNKNOWN, STATE, _CHANGED)] if _is_youngest(root, STATE, partitions) else []


def _is_youngest(root: Tree, place: str, inner: Iterable[str]) -> bool:
    """Whether *place* was changed after all its content; unavailable times prove nothing."""
    own = root.changed(place)
    return own is not None and all((changed := root.changed(each)) is not None and changed < own for each in inner)
