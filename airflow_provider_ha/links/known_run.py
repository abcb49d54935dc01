"""What a task knows of its run: noted on the operator by the process that has found it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


XCOM_KEY = "spark_ha_run"
"""Of the XCom in which a task tells its run (``views.task_results.KnownRunView``)."""

_ATTRIBUTE = "_spark_ha_known_run"


@dataclass(frozen=True, slots=True)
class KnownRun:
    """The run of a task.

    :param run: Its number; ``None`` while the task has none.
    :param log_page: Page of the cluster manager that leads to the log of the newest driver; empty without one.
    :param spark_ui: Spark's web UI, or the page of the history server; empty when neither is known.
    """

    run: int | None = None
    log_page: str = ""
    spark_ui: str = ""


def note_run(operator: Any, known: KnownRun) -> None:
    """Note what this process knows of the run of *operator*."""
    setattr(operator, _ATTRIBUTE, known)


def known_run(operator: Any) -> KnownRun:
    """Return what this process knows."""
    found = getattr(operator, _ATTRIBUTE, None)
    return found if isinstance(found, KnownRun) else KnownRun()
