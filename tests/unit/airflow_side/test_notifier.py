"""The message about an event, and the notifier that gets it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk import DAG

from airflow_provider_ha.airflow_side.compat.sdk import BaseNotifier
from airflow_provider_ha.airflow_side.notifications import SparkHaNotifier, compose, compose_all
from airflow_provider_ha.api.documents.cluster_events import CLUSTER_EVENTS


AT = datetime(2026, 3, 1, 3, 0, tzinfo=timezone.utc)
LOST = {
    "event": "no_leader",
    "job_id": "orders",
    "reason": "run 3 has lost its driver, epoch 7",
    "run": 3,
    "attempt": 2,
    "epoch": 7,
    "lasted": 30.4,
}


TO_DO = "Unpause the DAG recover_jobs, or run `spark-ha job recover orders`. `spark-ha job show orders` shows details."


class Sender(BaseNotifier):
    """A notifier of another provider: its text is a template when it is called."""

    template_fields = ("text",)
    sent: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, *, channel: str, text: str) -> None:
        super().__init__()
        self.channel = channel
        self.text = text

    def notify(self, context: Any) -> None:
        del context
        self.sent.append((self.channel, self.text))

    async def async_notify(self, context: Any) -> None:
        self.notify(context)


@pytest.fixture(autouse=True)
def sent() -> list[tuple[str, str]]:
    Sender.sent.clear()
    return Sender.sent


def test_a_secret_in_the_error_of_a_task_is_not_sent() -> None:
    failed = {"exception": RuntimeError("no connection to postgres://app:hunter2@db/prod")}

    message = SparkHaNotifier(job_id="orders").message(failed)

    assert message is not None
    assert "postgres://app:***@db/prod" in message.text
    assert "hunter2" not in message.text


def context_of(*payloads: dict[str, Any]) -> dict[str, Any]:
    events = [SimpleNamespace(extra={"from_trigger": True, "payload": each}, timestamp=AT) for each in payloads]
    return {"triggering_asset_events": {"alerts": events}, "dag": DAG("alerts", schedule=None)}


def notifier(**changed: Any) -> SparkHaNotifier:
    given: dict[str, Any] = {"to": Sender, "arguments": {"channel": "#{job_id}", "text": "{text}"}}
    return SparkHaNotifier(**given | changed)


def test_a_message_names_the_job_what_happened_since_when_and_what_to_do() -> None:
    message = compose(LOST, at=AT, link="https://airflow/spark-ha/jobs/orders")

    assert message.title == "Spark HA job orders has no leader"
    assert message.text.splitlines() == [
        "Spark HA job orders has no leader",
        "Why: run 3 has lost its driver, epoch 7",
        "Since: 2026-03-01 02:59:29 UTC, seen for 30 s",
        "Where: run 3, attempt 2, epoch 7",
        f"Next step: {TO_DO}",
        "https://airflow/spark-ha/jobs/orders",
    ]


@pytest.mark.parametrize("kind", CLUSTER_EVENTS)
def test_every_event_has_words_of_its_own(kind: str) -> None:
    message = compose({"event": kind, "job_id": "orders"})

    assert message.title != compose({"event": "another", "job_id": "orders"}).title
    assert "orders" in message.text


def test_events_that_come_together_are_one_message() -> None:
    both = compose_all([compose(LOST), compose({"event": "drill_failed", "job_id": "invoices"})])

    assert both.title == "Spark HA: 2 alerts about invoices, orders"
    assert "orders has no leader" in both.text
    assert "invoices failed its restore drill" in both.text


def test_the_message_is_handed_to_the_notifier_of_the_user(sent: list[tuple[str, str]]) -> None:
    notifier()(context_of(LOST))

    [(channel, text)] = sent
    assert channel == "#orders"
    assert text.startswith("Spark HA job orders has no leader\nWhy: run 3")


def test_a_notifier_is_named_by_its_path_and_works_in_a_triggerer(sent: list[tuple[str, str]]) -> None:
    asyncio.run(notifier(to=f"{__name__}.Sender").async_notify(context_of(LOST)))

    assert [channel for channel, _ in sent] == ["#orders"]


def test_words_of_a_failure_are_never_rendered_as_a_template(sent: list[tuple[str, str]]) -> None:
    notifier()(context_of(LOST | {"reason": "{{ 6 * 7 }} and {link} of <b>"}))

    assert "Why: {{ 6 * 7 }} and {link} of <b>" in sent[0][1]


def test_html_is_escaped() -> None:
    assert compose(LOST | {"reason": "<script>"}).fill(["{html}"])[0].startswith("<pre>Spark HA job")
    assert "&lt;script&gt;" in compose(LOST | {"reason": "<script>"}).fill("{html}")


def test_a_task_that_fails_is_told_with_the_job_of_its_operator(sent: list[tuple[str, str]]) -> None:
    failed = {"exception": ValueError("no such bucket"), "task": SimpleNamespace(job_id="orders")}
    notifier()(context_of() | failed)

    assert sent[0][0] == "#orders"
    assert "Why: no such bucket" in sent[0][1]


def test_events_of_other_assets_are_nothing_to_tell(sent: list[tuple[str, str]]) -> None:
    notifier()(context_of({"file": "x"}))

    assert sent == []


def test_without_a_notifier_the_message_is_in_the_log(
    sent: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, logged = notifier(to=None), list[Any]()
    monkeypatch.setattr(quiet.log, "warning", lambda *words: logged.append(words[0] % words[1:]))

    quiet(context_of(LOST))

    assert sent == []
    assert logged[0].startswith("Spark HA job orders has no leader")


def test_what_is_no_notifier_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"to='json\.dumps' is not a notifier"):
        notifier(to="json.dumps")(context_of(LOST))
