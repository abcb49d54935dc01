"""Exceptions of Airflow that only tests name, from where each supported release has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_2_PLUS
from airflow_provider_ha.airflow_side.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
    TaskDeferralTimeout,
)


if TYPE_CHECKING or AIRFLOW_V_3_2_PLUS:
    from airflow.sdk.exceptions import AirflowSensorTimeout, TaskDeferralError, TaskDeferred
else:
    from airflow.exceptions import AirflowSensorTimeout, TaskDeferralError, TaskDeferred


__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "TaskDeferralError",
    "TaskDeferralTimeout",
    "TaskDeferred",
]
