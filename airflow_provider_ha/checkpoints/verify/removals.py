"""Whether state was taken out of a checkpoint as a whole: what the files of checkpoint format 1 do not tell.

A query without state has no state directory, and one whose state directory was removed has none either. Operators are
numbered without a gap, so one that is gone below another is missed; of the one with the highest number the files do not
tell whether it was ever there. What tells on a file system of this host is the time of a directory: Spark makes what is
in it when the query begins, and writes below that ever after. What is younger than all that is in it was changed since.

Invariant: a time proves nothing. It makes the answer open, never no. Where there are no times, the answer is open where
all the state is gone, and nothing is said of a single operator.
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


_GONE = "it is not there, and the logs do not tell whether the query keeps state"
_NO_STATE = "nothing, for a query without state; `--depth prove` with the application tells"
_EMPTIED = "it is empty: left by a start that failed, or emptied"
_CHANGED = "something was taken out of it, or put into it, after the last state was written"
_OPERATORS = "every stateful operator of the query; `--depth prove` with the application tells"


def check_removals(subject: Subject, removed: list[Reason], findings: Findings) -> None:
    """Report that the state, or a part of it that nothing names, may have been removed.

    :param removed: What :func:`removals` says of the checkpoint.
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
    """Return what times say was removed from a checkpoint of format 1 on this host; nothing where they say nothing."""
    root = subject.directory
    if not root.keeps_times or any(entry.state_ids for entry in subject.logs.commits.values()):
        return []
    if not has_state_directory(root):
        # Where the commits were removed as well, that explains the time, and the query without state starts.
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
    """Whether *place* was changed after all that is in it; what cannot be asked for its time says nothing."""
    own = root.changed(place)
    return own is not None and all((changed := root.changed(each)) is not None and changed < own for each in inner)
