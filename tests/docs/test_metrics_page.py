"""The page about metrics is the list that the driver is tested with."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

from airflow_provider_ha.jobs.recovery.losses import RestartReason
from tests.docs.blocks import blocks_of
from tests.docs.metrics_page import PAGE, page, reasons_of
from tests.support.airflow_stats import OPTIONS


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "metrics.md"


def test_the_page_is_in_step_with_the_list() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.metrics_page"


def test_the_page_explains_every_reason_of_a_restart() -> None:
    assert reasons_of(page()) == {reason.value for reason in RestartReason}


def test_the_lines_of_airflow_cfg_are_those_that_the_receivers_are_tested_with() -> None:
    """``tests/integration/airflow_side/test_job_stats.py`` has a receiver for each of them."""
    found = {}
    for block in blocks_of(HOW_TO):
        if block.title is not None and block.title.startswith("airflow.cfg: "):
            parser = ConfigParser()
            parser.read_string(block.text)
            found[block.title.removeprefix("airflow.cfg: ")] = {name: dict(parser[name]) for name in parser.sections()}

    assert found == {protocol: {"metrics": dict(options)} for protocol, options in OPTIONS.items()}
