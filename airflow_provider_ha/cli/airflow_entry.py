"""Entry from ``airflow ha`` to ``spark-ha``: loaded only when a command is called."""

from __future__ import annotations

import logging
import sys
from argparse import Namespace

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.app import run
from airflow_provider_ha.cli.exit_codes import exit_code
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError


def run_words(args: Namespace) -> None:
    """Run ``spark-ha <noun> <words>`` for ``airflow ha <noun> <words>``."""
    log_to_stderr()
    try:
        # Not at the top: Airflow's own command would end with the stack trace that an unsupported release raises.
        from airflow_provider_ha.hooks._connection import read_place  # noqa: PLC0415  # see the comment
    except ConfigurationError as error:
        console.print_error(error, as_json="--json" in args.words)
        raise SystemExit(exit_code(error)) from None
    run(
        [args.subcommand, *args.words],
        prog_name="airflow ha",
        fallback=_default_connection,
        named=_connection,
        places=read_place,
    )


def log_to_stderr() -> None:
    """Move log output away from stdout, the default of Airflow 3.0: stdout is for the document of ``--json``."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout:
            moved = logging.StreamHandler(sys.stderr)
            moved.setFormatter(handler.formatter)
            moved.setLevel(handler.level)
            moved.filters = list(handler.filters)  # this includes the filter that masks secrets
            root.removeHandler(handler)
            root.addHandler(moved)


def _default_connection() -> HaConfig:
    from airflow_provider_ha.hooks.spark_ha import SparkHaHook  # noqa: PLC0415  # as above

    return SparkHaHook().get_config()


def _connection(conn_id: str) -> HaConfig:
    from airflow_provider_ha.hooks.spark_ha import SparkHaHook  # noqa: PLC0415  # as above

    return SparkHaHook(conn_id).get_config()
