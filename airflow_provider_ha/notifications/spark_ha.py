"""The notifier: composes the message about a job, and passes it to your existing notifier.

It has no transport: Slack, mail, PagerDuty and the others have notifiers in their providers, with their connections,
retries and tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.compat import AIRFLOW_V_3_1_PLUS
from airflow_provider_ha.compat.sdk import BaseNotifier
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.links import page_urls
from airflow_provider_ha.notifications.message import TASK_FAILED, AlertMessage, compose, compose_all


if TYPE_CHECKING:
    from datetime import datetime


__all__ = ["SparkHaNotifier", "messages_of"]


class SparkHaNotifier(BaseNotifier):
    """Notify people of events of jobs, or of a failed job task.

    In a DAG that an asset of ``SparkHaClusterTrigger`` starts, it reports the events that started the run. As
    ``on_failure_callback`` of a task it reports the failure, and the job of the task.

    :param to: The notifier that sends the message: its class, or the path of its class. Without it the message goes to
        the log.
    :param arguments: Its keyword arguments. ``{title}``, ``{text}``, ``{html}``, ``{link}``, ``{job_id}`` and
        ``{event}`` in them are replaced by those of the message.
    :param job_id: The job, for callbacks; by default that of the task's operator.
    :param spark_ha_conn_id: Connection of type ``spark_ha``: the link names it.
    """

    template_fields: Sequence[str] = ("arguments", "job_id", "spark_ha_conn_id")

    def __init__(
        self,
        *,
        to: type[BaseNotifier] | str | None = None,
        arguments: Mapping[str, Any] | None = None,
        job_id: str | None = None,
        spark_ha_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to = to
        self.arguments = dict(arguments or {})
        self.job_id = job_id
        self.spark_ha_conn_id = spark_ha_conn_id

    def __call__(self, *args: Any) -> None:
        """Render and send, as Airflow does. A message that is not sent is an error on each release.

        Airflow 3.0 only logs it: the notifying task would succeed.
        """
        if AIRFLOW_V_3_1_PLUS or len(args) != 1:
            super().__call__(*args)
            return
        (context,) = args
        self._update_context(context)
        self.render_template_fields(context)
        self.notify(context)

    def notify(self, context: Any) -> None:
        """Compose and send. Without an event or a failure in the context, nothing is sent."""
        if (message := self.message(context)) is not None:
            if (sender := self.sender(message)) is not None:
                # Not called: that would render the text as a template, and it has texts of third parties.
                sender.notify(context)
            else:
                self.log.warning("%s", message.text)

    async def async_notify(self, context: Any) -> None:
        """Do the same in a triggerer, with a notifier that can."""
        if (message := self.message(context)) is not None:
            if (sender := self.sender(message)) is not None:
                await sender.async_notify(context)
            else:
                self.log.warning("%s", message.text)

    def message(self, context: Any) -> AlertMessage | None:
        """Return the message; ``None`` without an event."""
        messages = messages_of(context, self.spark_ha_conn_id, self.job_id)
        return compose_all(messages) if messages else None

    def sender(self, message: AlertMessage) -> BaseNotifier | None:
        """Return the notifier that sends a message; ``None`` for the log.

        :raises TypeError: *to* is not a notifier class.
        """
        if self.to is None:
            return None
        made = resolve_name(self.to) if isinstance(self.to, str) else self.to
        if not (isinstance(made, type) and issubclass(made, BaseNotifier)):
            raise TypeError(f"to={self.to!r} is not a notifier: name a subclass of airflow.sdk.BaseNotifier")
        return made(**message.fill(self.arguments))


def messages_of(context: Any, conn_id: str = DEFAULT_CONN_ID, job_id: str | None = None) -> list[AlertMessage]:
    """Return a message per event that started the DAG run; in a task's callback, the message of the failure.

    :param context: Airflow's.
    :param conn_id: Connection of type ``spark_ha``.
    :param job_id: The job, for callbacks; by default that of the task's operator.
    """
    if (error := context.get("exception")) is not None:
        named = job_id or getattr(context.get("task"), "job_id", None) or ""
        event = {"event": TASK_FAILED, "job_id": named, "reason": str(error)}
        return [compose(event, link=_link(conn_id, named))]
    return [compose(event, at=at, link=_link(conn_id, str(event.get("job_id", "")))) for event, at in _events(context)]


def _events(context: Any) -> Iterator[tuple[Mapping[str, Any], datetime | None]]:
    triggering = context.get("triggering_asset_events") or {}
    for each in (event for events in triggering.values() for event in events):
        payload = (each.extra or {}).get("payload")
        if isinstance(payload, Mapping) and "job_id" in payload:  # other events may come from any asset
            yield payload, getattr(each, "timestamp", None)


def _link(conn_id: str, job_id: str) -> str:
    return page_urls.base_url() + page_urls.job_path(conn_id, job_id) if job_id and page_urls.has_page() else ""
