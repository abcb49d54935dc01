"""Tell a person when something is wrong with a job of the cluster: also with jobs that no task follows.

The asset's watcher looks at every job. Each condition is reported once it has lasted, and again while it lasts. Without
a change the message goes to the log of the task and to its XCom; put in NOTIFIER how your people are told:

    NOTIFIER = {
        "to": "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier",
        "arguments": {"slack_webhook_conn_id": "slack_on_call", "text": "{text}"},
    }
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, get_current_context, task

from airflow_provider_ha.airflow_side.notifications import SparkHaNotifier, messages_of
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger


NOTIFIER: dict[str, Any] = {}
EVENTS = [
    "no_leader",
    "quarantined",
    "recovered",
    "not_inspected",
    "restart_budget_exhausted",
    "run_failed",
    "failing",
    "checkpoint_failing",
    "checkpoint_old",
    "stalled",
    "input_lost",
    "standby_missing",
    "drill_failed",
    "recovery_point_exceeded",
    "recovery_time_exceeded",
]

alerts = Asset(
    name="spark_ha_alerts",
    watchers=[
        AssetWatcher(
            name="spark_ha_alerts",
            # A driver that is lost and comes back within half a minute is not worth a call; recover_jobs is faster.
            # It only tells: a job that nothing else looks after is still shown as such.
            trigger=SparkHaClusterTrigger(emit=EVENTS, grace=30.0, recovers=False),
        )
    ],
)

with DAG(dag_id="alerts", doc_md=__doc__, schedule=[alerts], catchup=False, tags=["spark-ha"]) as dag:
    # A recovery is told once, and a failure again after hours: so a channel that refuses the message is asked for half
    # an hour. One that does not answer would hold the slot of a worker; it gets a next try as well.
    @task(retries=30, retry_delay=timedelta(minutes=1), execution_timeout=timedelta(minutes=2))
    def tell() -> list[str]:
        """Tell of the events that started this run; return what was told."""
        context: Any = get_current_context()
        SparkHaNotifier(**NOTIFIER)(context)
        return [message.text for message in messages_of(context)]

    tell()
