"""Where ``airflow ha`` enters ``spark-ha``: loaded only when one of the commands is really called."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider_ha.cli.app import run
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.hooks._spark_connection import known_place
from airflow_provider_ha.hooks.spark_ha import SparkHaHook


def run_words(args: Namespace) -> None:
    """Run ``spark-ha <noun> <words>`` for ``airflow ha <noun> <words>``."""
    run(
        [args.subcommand, *args.words],
        prog_name="airflow ha",
        fallback=_default_connection,
        named=_connection,
        places=known_place,
    )


def _default_connection() -> HaConfig:
    return SparkHaHook().get_config()


def _connection(conn_id: str) -> HaConfig:
    return SparkHaHook(conn_id).get_config()
