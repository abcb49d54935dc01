"""Notifier that composes the message about a job and passes it to an existing notifier.

It has no transport: Slack, mail, PagerDuty and others have notifiers in their providers, with their connections,
retries and tests.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pkgutil import resolve_name
from typing import Any

from airflow_provider_ha.airflow_side import page_urls
from airflow_provider_ha.airflow_side.compat import AIRFLOW_V_3_1_PLUS
from airflow_provider_ha.airflow_side.compat.sdk import BaseNotifier
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.redaction import public


__all__ = ["AlertMessage", "SparkHaNotifier", "compose", "compose_all", "messages_of"]


TASK_FAILED = "task_failed"  # not an event of a trigger: a callback of a task
# Event -> (event as a predicate, remedy). {job} is the job's id.
_KNOWN: Mapping[str, tuple[str, str]] = {
    "no_leader": (
        "has no leader",
        "Unpause the DAG recover_jobs, or run `spark-ha job recover {job}`. `spark-ha job show {job}` shows details.",
    ),
    "quarantined": (
        "is in quarantine and is not recovered",
        "Repair the cause, then `spark-ha job release {job}`. `spark-ha job show {job}` shows its state.",
    ),
    "leadership_granted": ("has a new leader", "Nothing. `spark-ha job show {job}` shows who leads, and since when."),
    "recovered": ("is led again", "Nothing. `spark-ha job logs {job}` shows the last output of the lost driver."),
    "not_inspected": (
        "has a leader that recovers no job",
        "Look at that process and its mounts, and end it: another one then leads. `spark-ha cluster show` shows it.",
    ),
    "restart_budget_exhausted": (
        "FAILED, and is not started again",
        "Read `spark-ha job logs {job}`, repair the cause, and resubmit it: it continues from its newest checkpoint.",
    ),
    "run_failed": (
        "FAILED",
        "Read `spark-ha job logs {job}`, repair the cause, and resubmit it: it continues from its newest checkpoint.",
    ),
    "failing": (
        "fails repeatedly",
        "Read `spark-ha job logs {job}`, and repair the cause. The job restarts automatically.",
    ),
    "checkpoint_failing": (
        "takes no checkpoints",
        "Check the storage (`spark-ha storage check`): rows since the last checkpoint are read again after a loss.",
    ),
    "checkpoint_old": (
        "has an old checkpoint",
        "Look whether checkpoints fail: `spark-ha job show {job}` and `spark-ha job logs {job}`.",
    ),
    "stalled": (
        "is stalled",
        "Look at its queries and executors: `spark-ha job show {job}`, `spark-ha job logs {job}`.",
    ),
    "input_lost": (
        "continues without lost input",
        "Its rows are lost. `spark-ha job logs {job}` shows which; compare the output with the source.",
    ),
    "standby_missing": (
        "has fewer standby drivers than it requests",
        "A loss of its driver takes longer to recover. `spark-ha job show {job}` names the log of each standby driver.",
    ),
    "standby_ready": (
        "has its standby drivers ready",
        "Nothing. `spark-ha job show {job}` shows each one with its host.",
    ),
    "drill_failed": (
        "failed its restore drill",
        "A restore after a disaster may fail: `spark-ha drill list {job}`, then take a savepoint and drill it.",
    ),
    "recovery_point_exceeded": (
        "would lose more than its recovery point allows",
        "Take savepoints more often, or drill a newer one: `spark-ha drill list {job}`.",
    ),
    "recovery_time_exceeded": (
        "takes longer to restore than its recovery time allows",
        "See which step takes long: `spark-ha drill list {job}`.",
    ),
    TASK_FAILED: ("has a task that failed", "Read the task's log, then `spark-ha job show {job}`."),
}
_UNKNOWN = ("has news", "See `spark-ha job show {job}`.")
_SHOWN = 1000  # characters of a reason


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """Message for people.

    :param job_id: Id of the job; for several jobs, their ids separated by commas.
    :param event: Name of the event.
    :param title: Title, a single line.
    :param text: Complete message as lines of plain text.
    :param link: URL of the job's page; empty if this Airflow does not show it.
    """

    job_id: str
    event: str
    title: str
    text: str
    link: str = ""

    def fill(self, value: Any) -> Any:
        """Return *value* with ``{title}``, ``{text}``, ``{html}``, ``{link}``, ``{job_id}`` and ``{event}`` replaced.

        Replaces them in texts, also inside lists and mappings. ``{html}`` is the text as HTML, with everything escaped.
        """
        if isinstance(value, str):
            return self._filled(value)
        if isinstance(value, Mapping):
            return {name: self.fill(each) for name, each in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return [self.fill(each) for each in value]
        return value

    def _filled(self, template: str) -> str:
        known = {
            "{title}": self.title,
            "{text}": self.text,
            "{html}": f"<pre>{html.escape(self.text)}</pre>",
            "{link}": self.link,
            "{job_id}": self.job_id,
            "{event}": self.event,
        }
        parts, rest = [], template
        while rest:  # one pass: inserted values are not scanned again
            at, token = min(((rest.find(each), each) for each in known if each in rest), default=(len(rest), ""))
            parts += [rest[:at], known.get(token, "")]
            rest = rest[at + len(token) :]
        return "".join(parts)


def compose(event: Mapping[str, Any], *, at: datetime | None = None, link: str = "") -> AlertMessage:
    """Return the message about an event.

    :param event: Event as emitted by the cluster's event trigger.
    :param at: Time of the event; now by default.
    :param link: URL of the job's page.
    """
    job_id, kind = str(event.get("job_id", "")), str(event.get("event", ""))
    what, to_do = _KNOWN.get(kind, _UNKNOWN)
    title = f"Spark HA job {job_id} {what}" if job_id else f"Spark HA cluster {event.get('cluster', '')} {what}"
    lines = [title]
    if event.get("reason"):
        # A task's error may come from another library, and may contain a password in a URL.
        lines.append(f"Why: {_shortened(public(str(event['reason'])))}")
    if since := _since(event, at or datetime.now(timezone.utc)):
        lines.append(f"Since: {since}")
    if "took" in event:
        lines.append(f"It had no leader for {event['took']:.0f} s.")
    where = [f"{name} {event[name]}" for name in ("run", "attempt", "epoch", "host", "checkpoint") if event.get(name)]
    if where:
        lines.append(f"Where: {', '.join(where)}")
    lines.append(f"Next step: {to_do.format(job=job_id)}")
    if link:
        lines.append(link)
    return AlertMessage(job_id, kind, title, "\n".join(lines), link)


def compose_all(messages: Sequence[AlertMessage]) -> AlertMessage:
    """Return one message for several: Airflow passes concurrent events to one DAG run."""
    if len(messages) == 1:
        return messages[0]
    jobs = ", ".join(sorted({each.job_id for each in messages}))
    kinds = ", ".join(sorted({each.event for each in messages}))
    title = f"Spark HA: {len(messages)} alerts about {jobs}"
    return AlertMessage(jobs, kinds, title, "\n\n".join(each.text for each in messages), messages[0].link)


def _since(event: Mapping[str, Any], at: datetime) -> str:
    lasted = event.get("lasted")
    if not isinstance(lasted, (int, float)):
        return ""
    return f"{at - timedelta(seconds=lasted):%Y-%m-%d %H:%M:%S} UTC, seen for {lasted:.0f} s"


def _shortened(reason: str) -> str:
    return reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}…"


class SparkHaNotifier(BaseNotifier):
    """Notify people of events of jobs, or of a failed job task.

    In a DAG triggered by an asset of ``SparkHaClusterTrigger``, it reports the events that started the run. As
    ``on_failure_callback`` of a task, it reports the failure, and the job of the task.

    :param to: Notifier that sends the message, as a class or the path of a class. Without it the message goes to the
        log.
    :param arguments: Keyword arguments of that notifier. ``{title}``, ``{text}``, ``{html}``, ``{link}``, ``{job_id}``
        and ``{event}`` in them are replaced by the parts of the message.
    :param job_id: Id of the job, for callbacks; by default that of the task's operator.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``, part of the link.
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
        """Render and send, as Airflow does. An unsent message is an error on every release.

        Airflow 3.0 only logs such errors, so the notifying task would succeed.
        """
        if AIRFLOW_V_3_1_PLUS or len(args) != 1:
            super().__call__(*args)
            return
        (context,) = args
        self._update_context(context)
        self.render_template_fields(context)
        self.notify(context)

    def notify(self, context: Any) -> None:
        """Compose and send the message, if the context has an event or a failure."""
        if (message := self.message(context)) is not None:
            if (sender := self.sender(message)) is not None:
                # Not called, because that would render the text as a template, and the text contains third-party parts.
                sender.notify(context)
            else:
                self.log.warning("%s", message.text)

    async def async_notify(self, context: Any) -> None:
        """Compose and send the message in a triggerer, with a notifier that supports it."""
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

    :param context: Context of the task.
    :param conn_id: Airflow connection of type ``spark_ha``.
    :param job_id: Id of the job, for callbacks; by default that of the task's operator.
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
