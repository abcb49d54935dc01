"""The verbs of ``spark-ha`` under ``airflow ha``.

Airflow imports this module for every ``airflow`` command, so it imports nothing heavy: the words after the noun are
handed to ``spark-ha`` as they are. The cluster is the one of connection ``spark_ha_default`` unless options or the
environment name another.
"""

from __future__ import annotations

import argparse

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand, lazy_load_command


_WORDS = Arg(  # type: ignore[no-untyped-call]  # Airflow's Arg has no annotations
    ("words",), nargs=argparse.REMAINDER, help="verb and options, as after `spark-ha`"
)

_NOUNS = {
    "job": "submit, list, show, leader, history, graph, logs, stop, cancel, hand-over, fail-over, restore, recover, "
    "move, release",
    "checkpoint": "checkpoints of a job or a directory: list, show, trigger, verify, plan",
    "savepoint": "list, show, trigger, create, verify, export, import, restore",
    "drill": "rehearsals of a restore: run, list",
    "delete": "delete a job, a checkpoint, a savepoint, or all data of a cluster",
    "cluster": "the leader of the cluster, its recovery and its tree in ZooKeeper: show, recover, tree, rebuild",
    "acl": "permissions of the nodes in ZooKeeper: check, repair",
    "storage": "check the storage, and remove unneeded records, files and blobs: check, clean",
    "archive": "make, list and remove class archives of this host: make, list, remove",
    "metrics": "targets for Prometheus, files: the dashboard and the alert rules",
    "examples": "copy the example DAGs into a directory",
}


def get_ha_cli_commands() -> list[CLICommand]:
    """Return the ``ha`` group for Airflow's command line."""
    return [
        GroupCommand(
            name="ha",
            help="High availability of Spark streaming jobs",
            subcommands=[
                ActionCommand(
                    name=noun,
                    help=text,
                    func=lazy_load_command("airflow_provider_ha.cli.app.run_words"),
                    args=(_WORDS,),
                )
                for noun, text in _NOUNS.items()
            ],
        )
    ]
