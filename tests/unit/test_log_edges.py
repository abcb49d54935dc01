"""Logs of drivers that were never started, cannot be read, or are followed while the job changes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.api import ha_services
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.errors import (
    ConfigurationError,
    JobStateError,
    LogMissingError,
    NotConnectedError,
    RecordCorruptError,
)
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers import run_logs
from airflow_provider_ha.jobs.drivers.driver_spec import write_secrets
from airflow_provider_ha.jobs.drivers.run_logs import (
    choose,
    find_log,
    hide_secrets,
    hide_secrets_of_script,
    last_words,
)
from airflow_provider_ha.jobs.recovery.losses import _log
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.redaction import public
from airflow_provider_ha.storage.keys import JobKeys
from tests.engine_helpers import CONFIG
from tests.support.clusters.jobs_helpers import a_run, a_start, a_submission, an_exit


WAITING = SubmissionView(submission=a_submission())
REFUSED = SubmissionView(submission=a_submission(), exit=an_exit().model_copy(update={"reason": "the disk is full"}))
STARTED = SubmissionView(submission=a_submission(), started=a_start())


def view(*submissions: SubmissionView) -> RunView:
    return RunView(run=a_run(), submissions=submissions)


def job(home: Path, **parts: Any) -> Any:
    config = SimpleNamespace(**(CONFIG.model_dump() | {"home_path": home}))
    known = {"job_id": "flights", "keys": JobKeys("flights"), "config": config, "engines": Engines.of(CONFIG)}
    return SimpleNamespace(**(known | parts))


def test_a_run_that_was_never_submitted_has_no_log() -> None:
    with pytest.raises(JobStateError, match=r"run 1 of job 'flights' was never submitted.*spark-ha job show flights"):
        choose("flights", view())


@pytest.mark.parametrize(
    ("submission", "said"),
    [
        (REFUSED, "its driver was not started: the disk is full"),
        (WAITING, "its driver was not started. Check with `spark-ha job show flights`"),
    ],
    ids=["refused", "waiting"],
)
def test_an_attempt_that_was_not_started_has_no_log_and_says_why(
    tmp_path: Path, submission: SubmissionView, said: str
) -> None:
    with pytest.raises(LogMissingError) as caught:
        find_log(job(tmp_path), 1, submission)

    assert said in str(caught.value)


def test_without_the_graph_only_what_looks_like_a_secret_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(_: object) -> None:
        raise RecordCorruptError("the graph is damaged")

    monkeypatch.setattr("airflow_provider_ha.jobs.drivers.run_logs.secrets_of", lambda _: set())

    assert hide_secrets(job(tmp_path, graph=unreadable), view(STARTED)) is False


def test_a_log_that_cannot_be_read_has_no_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_ha.jobs.drivers.run_logs.hide_secrets", lambda *_: True)

    assert last_words(job(tmp_path), view(STARTED), STARTED) == ""


def test_last_words_whose_secrets_cannot_be_known_are_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / JobKeys("flights").application(1, 1) / "driver.log"
    log.parent.mkdir(parents=True)
    log.write_text("the environment has open-sesame-1704\n")
    monkeypatch.setattr("airflow_provider_ha.jobs.drivers.run_logs.hide_secrets", lambda *_: False)

    assert last_words(job(tmp_path), view(STARTED), STARTED) == ""


@pytest.fixture
def led_out(tmp_path: Path) -> Path:
    """The home of a cluster in which the directory of an attempt is a link to one of this host."""
    outside, attempt = tmp_path / "outside", tmp_path / "home" / JobKeys("flights").application(1, 1)
    outside.mkdir()
    (outside / "driver.log").write_text("of another one\n")
    write_secrets(outside / "script.secrets", {"a-word-of-another-one"})
    attempt.parent.mkdir(parents=True)
    attempt.symlink_to(outside)
    return tmp_path / "home"


def test_last_words_are_not_taken_from_where_a_driver_has_led(led_out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_ha.jobs.drivers.run_logs.hide_secrets", lambda *_: True)

    assert last_words(job(led_out), view(STARTED), STARTED) == ""


def test_secrets_are_not_taken_from_where_a_driver_has_led(led_out: Path) -> None:
    hide_secrets_of_script(job(led_out), 1, a_submission())

    assert public("a-word-of-another-one") == "a-word-of-another-one"


def test_a_loss_before_the_start_names_the_log_of_its_exit() -> None:
    refused = SubmissionView(submission=a_submission(), exit=an_exit().model_copy(update={"log": "/home/driver.log"}))

    assert (_log(refused), _log(WAITING)) == ("/home/driver.log", "")


def watch_of(*views: RunView | Exception) -> tuple[run_logs._RunWatch, list[str]]:
    """Return what follows a run that is as in *views*, one look after the other, and its notes."""
    looks, said = iter(views[1:]), list[str]()

    def get(_: int) -> RunView:
        seen = next(looks)
        if isinstance(seen, Exception):
            raise seen
        return seen

    followed = job(Path("/nowhere"), runs=SimpleNamespace(get=get), sleep=lambda _: None)
    first = views[0]
    assert isinstance(first, RunView)
    return run_logs._RunWatch(followed, first, said.append), said


def test_an_attempt_that_is_replaced_before_it_starts_gives_way_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_logs, "POLL_SECONDS", 0.0)
    second = SubmissionView(submission=a_submission(2), started=a_start())
    watch, _ = watch_of(view(WAITING), view(WAITING, second))

    assert watch.await_start(1) == 2


def test_following_outlives_an_outage_and_ends_with_an_error_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_logs, "POLL_SECONDS", 0.0)
    outage, damage = NotConnectedError("no server answers"), RecordCorruptError("run 1 is damaged")
    watch, said = watch_of(view(STARTED), outage, outage, damage)

    watch._look()
    watch._look()
    assert len(said) == 1
    with pytest.raises(RecordCorruptError, match="run 1 is damaged"):
        watch._look()


def test_a_stop_mode_that_there_is_not_is_refused_before_anything_is_asked() -> None:
    context: Any = SimpleNamespace(config=CONFIG)
    client = JobClient(context)

    with pytest.raises(ConfigurationError, match=r"'drain' is not known.*'suspend' or 'terminate'"):
        client.request_stop(operation_id="o", requested_by="r", mode="drain")

    assert client.config is CONFIG


def test_a_zookeeper_of_its_own_ends_when_no_session_with_it_can_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    server = SimpleNamespace(hosts="127.0.0.1:1", stop=lambda: stopped.append(True))

    def unreachable(_: object) -> None:
        raise NotConnectedError("no server answers")

    monkeypatch.setattr(ha_services, "EmbeddedZooKeeper", lambda _: SimpleNamespace(start=lambda: server))
    monkeypatch.setattr(HaClient, "open", unreachable)

    with pytest.raises(NotConnectedError):
        ha_services.HaServices.embedded(tmp_path)

    assert stopped == [True]
