"""``python -m tests.support.checkpoints.bounded_commands JSON``: run commands of ``spark-ha`` within 3 GiB of memory.

Prints, as JSON, the exit code, the output and the unexpected exception of each. ``["look", DIRECTORY]`` is the start of
an adoption.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.directory_plan import look
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.restorable import verifier
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.errors import HaError


MEMORY = 3 << 30  # bytes


def run(words: list[str]) -> tuple[int, str, str]:
    """Return exit code, output and unexpected exception of one command."""
    if words[0] == "look":
        sink = QuerySink(kind=SinkKind.OTHER)
        try:
            look("q", LocalTree(Path(words[1])), words[1], sink, verifier("quick", None))
        except HaError as error:
            return 1, str(error), ""
        return 0, "", ""
    done = CliRunner().invoke(app, words, obj=ClusterTarget())
    unexpected = done.exception is not None and not isinstance(done.exception, SystemExit)
    return done.exit_code, done.output, repr(done.exception) if unexpected else ""


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    print(json.dumps([run(words) for words in json.loads(sys.argv[1])]))
