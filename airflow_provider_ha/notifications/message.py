"""The message about an event: job, event, time, remedy, and links. Pure."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_provider_ha.redaction import public


__all__ = ["AlertMessage", "compose", "compose_all"]

TASK_FAILED = "task_failed"  # not an event of a trigger: a callback of a task
# Event -> (event as a predicate, remedy). {job} is the job's id.
_KNOWN: Mapping[str, tuple[str, str]] = {
    "no_leader": (
        "has no leader",
        "Unpause the DAG recover_jobs, or run `spark-ha recover {job}`. `spark-ha job show {job}` shows details.",
    ),
    "quarantined": (
        "is in quarantine: nothing recovers it",
        "Repair the cause, then `spark-ha job release {job}`. `spark-ha job show {job}` shows where it stands.",
    ),
    "leadership_granted": ("has a new leader", "Nothing. `spark-ha job show {job}` shows who leads, and since when."),
    "recovered": ("is led again", "Nothing. `spark-ha job logs {job}` shows what the lost driver said last."),
    "not_inspected": (
        "has a leader that recovers no job",
        "Look at that process and its mounts, and end it: another one then leads. `spark-ha cluster show` shows it.",
    ),
    "restart_budget_exhausted": (
        "FAILED, and is not started again",
        "Read `spark-ha job logs {job}`, repair the cause, and submit it again: it goes on from its newest checkpoint.",
    ),
    "run_failed": (
        "FAILED",
        "Read `spark-ha job logs {job}`, repair the cause, and submit it again: it goes on from its newest checkpoint.",
    ),
    "failing": (
        "fails again and again",
        "Read `spark-ha job logs {job}`, and repair the cause. It is started again by itself.",
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
        "continues without input that is gone",
        "Its rows are lost. `spark-ha job logs {job}` shows which; compare the output with the source.",
    ),
    "drill_failed": (
        "failed its restore drill",
        "It may not come back after a disaster: `spark-ha savepoint drills {job}`, then take a savepoint and drill it.",
    ),
    "recovery_point_exceeded": (
        "would lose more than its recovery point allows",
        "Take savepoints more often, or drill a newer one: `spark-ha savepoint drills {job}`.",
    ),
    "recovery_time_exceeded": (
        "takes longer to restore than its recovery time allows",
        "See which step takes long: `spark-ha savepoint drills {job}`.",
    ),
    TASK_FAILED: ("has a task that failed", "Read the task's log, then `spark-ha job show {job}`."),
}
_UNKNOWN = ("has news", "See `spark-ha job show {job}`.")
_SHOWN = 1000  # characters of a reason


@dataclass(frozen=True, slots=True)
class AlertMessage:
    """A message for people.

    :param job_id: The job; for several jobs, their ids separated by commas.
    :param event: Name of the event.
    :param title: One line.
    :param text: The complete message, in lines of plain text.
    :param link: URL of the job's page; empty if Airflow has none.
    """

    job_id: str
    event: str
    title: str
    text: str
    link: str = ""

    def fill(self, value: Any) -> Any:
        """Return *value* with ``{title}``, ``{text}``, ``{html}``, ``{link}``, ``{job_id}`` and ``{event}`` replaced.

        Replaces in texts, including those in lists and mappings. ``{html}`` is the text as HTML, with everything
        escaped.
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
    """Return the message about one event.

    :param event: As emitted by the cluster's event trigger.
    :param at: Time of the event; now by default.
    :param link: URL of the job's page.
    """
    job_id, kind = str(event.get("job_id", "")), str(event.get("event", ""))
    what, to_do = _KNOWN.get(kind, _UNKNOWN)
    title = f"Spark HA job {job_id} {what}" if job_id else f"Spark HA cluster {event.get('cluster', '')} {what}"
    lines = [title]
    if event.get("reason"):
        # The error of a task may come from another library, with a password in a URL.
        lines.append(f"Why: {_shortened(public(str(event['reason'])))}")
    if since := _since(event, at or datetime.now(timezone.utc)):
        lines.append(f"Since: {since}")
    if "took" in event:
        lines.append(f"It had no leader for {event['took']:.0f} s.")
    where = [f"{name} {event[name]}" for name in ("run", "attempt", "epoch", "host", "checkpoint") if event.get(name)]
    if where:
        lines.append(f"Where: {', '.join(where)}")
    lines.append(f"What to do: {to_do.format(job=job_id)}")
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
