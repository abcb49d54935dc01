"""Names of Airflow for tasks, hooks and triggers: base classes, exceptions, configuration, masking of secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, BaseOperatorLink, BaseSensorOperator
from airflow.sdk.bases.notifier import BaseNotifier  # Airflow 3.0.0 looks for that of airflow.sdk elsewhere
from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_1_PLUS, AIRFLOW_V_3_2_PLUS, AIRFLOW_V_3_3_PLUS


__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowProviderDeprecationWarning",
    "AirflowSkipException",
    "BaseEventTrigger",
    "BaseHook",
    "BaseNotifier",
    "BaseOperator",
    "BaseOperatorLink",
    "BaseSensorOperator",
    "BaseTrigger",
    "TaskDeferralTimeout",
    "TimeDeltaTrigger",
    "TriggerEvent",
    "conf",
    "mask_secret",
]


# Type checkers see the newest release.
if TYPE_CHECKING or AIRFLOW_V_3_2_PLUS:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        TaskDeferralTimeout,
    )
else:
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        TaskDeferralTimeout,
    )

if TYPE_CHECKING or AIRFLOW_V_3_1_PLUS:
    from airflow.sdk import BaseHook
    from airflow.sdk.log import mask_secret
else:
    from airflow.hooks.base import BaseHook
    from airflow.sdk.execution_time.secrets_masker import mask_secret

if TYPE_CHECKING or AIRFLOW_V_3_3_PLUS:
    from airflow.sdk import conf
else:
    from airflow.configuration import conf
