"""Wrapper that runs a command which the kernel kills when its parent process dies.

Started as a script (``python -I -S die_with_parent.py <pid of the parent> <command...>``) and not as ``preexec_fn``:
code between fork and exec of a process with threads can deadlock. The request survives ``exec``; it is bound to the
*thread* that started the process, so start such processes from a thread that outlives them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys


PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Make the kernel kill this process when its parent dies.

    :param parent: Process id of the expected parent; if it is already gone, this process ends immediately.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the request was made
        raise SystemExit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # the command is ours: the embedded server
