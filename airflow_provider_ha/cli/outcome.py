"""Exit codes: 0 done or true, 1 the answer is no, 2 the answer is unknown, 130 Ctrl-C came before the answer.

A script that calls ``spark-ha leader show`` must be able to distinguish "the job has no leader" from "ZooKeeper did not
answer": only the first is a reason to act.
"""

from __future__ import annotations

from enum import IntEnum

from airflow_provider_ha import errors


class Exit(IntEnum):
    """The answer of a command."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    INTERRUPTED = 130


# A server or the storage answered, and the answer is no. Every other error leaves the question open.
_ANSWERED_NO = (
    errors.JobError,
    errors.CheckpointMissingError,
    errors.CheckpointCorruptError,
    errors.RestoreRefusedError,
    errors.NodeMissingError,
    errors.LeadershipUnavailableError,
)


def exit_code(error: errors.HaError) -> Exit:
    """Return the exit code that an error stands for."""
    return Exit.NO if isinstance(error, _ANSWERED_NO) else Exit.UNKNOWN
