"""The page about metrics is the list that the driver is tested with."""

from __future__ import annotations

from airflow_provider_ha.recovery.timeline import RestartReason
from tests.docs.metrics_page import PAGE, page, reasons_of


def test_the_page_is_in_step_with_the_list() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.metrics_page"


def test_the_page_explains_every_reason_of_a_restart() -> None:
    assert reasons_of(page()) == {reason.value for reason in RestartReason}
