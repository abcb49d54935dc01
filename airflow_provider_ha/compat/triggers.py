"""The bases of triggers: of the same modules in each release, but imported after the release was looked at."""

from __future__ import annotations

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent


__all__ = ["BaseEventTrigger", "BaseTrigger", "TimeDeltaTrigger", "TriggerEvent"]
