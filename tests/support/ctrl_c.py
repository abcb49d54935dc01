"""``spark-ha`` as a person at a terminal runs it: with Ctrl-C.

What runs in the background of a script ignores Ctrl-C, and so would each process that it starts: these tests, too.
"""

from __future__ import annotations

import sys


_HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def spark_ha_with_ctrl_c(*words: str) -> list[str]:
    """Return the words of a process that runs the command and ends with SIGINT, however the tests were started."""
    program = f"{_HEARD}; from airflow_provider_ha.cli.app import main; main()"
    return [sys.executable, "-c", program, *words]
