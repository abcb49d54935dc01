"""Killing a process tree, from a separate process: everything below that process is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


DENIED_THREE_TIMES = """
import logging, os, sys
from pathlib import Path
import psutil
from airflow_provider_ha.host.process_tree import ProcessTree
logging.basicConfig(stream=sys.stdout, format="%(message)s")
here = Path(sys.argv[1])
child = [sys.executable, "-c", "import time; time.sleep(600)"]
tree = ProcessTree(child, env=dict(os.environ), directory=here, log_file=here / "log")
kill, denials = psutil.Process.kill, [tree.pid] * 3

def kill_at_last(process):
    if denials:
        raise psutil.AccessDenied(denials.pop())
    kill(process)

psutil.Process.kill = kill_at_last
assert tree.kill() == (tree.pid,), "its death is proven"
assert not denials, "it was tried again"
print(tree.pid)
"""


def test_a_process_that_may_not_be_killed_is_tried_again_and_named_once(tmp_path: Path) -> None:
    """A setuid program belongs to another user. An exception here would end the supervisor without an exit record."""
    run = subprocess.run(
        [sys.executable, "-c", DENIED_THREE_TIMES, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
    warning, pid = run.stdout.splitlines()
    assert warning == f"process {pid} may not be killed by this user: waiting for its end"
