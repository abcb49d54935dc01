"""``spark-ha job logs``: the right log, from any host that has it, without secrets, and over rotations and attempts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create
from airflow_provider_ha.coordination.znode_records import create_once
from airflow_provider_ha.errors import LogMissingError, NotConnectedError
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.process_tree import LogRotation
from airflow_provider_ha.jobs.drivers import run_logs
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome, Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import write_secrets
from airflow_provider_ha.jobs.drivers.run_logs import last_words
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Submission, SubmissionExit
from airflow_provider_ha.redaction import PublicText
from airflow_provider_ha.testing.waiting import wait_until
from tests.engine_helpers import NothingToSee, handle, started
from tests.support.clusters import submit_helpers as helpers


YES, NO = 0, 1


class LoggingEngine(NothingToSee):
    """An engine whose drivers are a log and nothing else. The log and where it lies are as the real engine has them."""

    name = "local"

    def __init__(self, config: HaConfig, host: str) -> None:
        self.config = config
        self.host = host

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        home = DriverHome.of(self.config, ticket)
        home.directory.mkdir(parents=True)
        home.driver_log.write_text(f"attempt {ticket.attempt} begins\n")
        return handle(host=self.host, log=str(home.driver_log))


@pytest.fixture
def job(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> JobContext:
    """A job with a run, whose first attempt has begun its log."""
    context = replace(
        helpers.context(config, coordinator), engines=Engines.only(LoggingEngine(config, socket.gethostname()))
    )
    helpers.submit(context, helpers.script(tmp_path))
    return context


def log_of(job: JobContext, *, attempt: int = 1) -> Path:
    return helpers.directory(job, attempt=attempt) / "driver.log"


def write(job: JobContext, *lines: str, attempt: int = 1) -> None:
    with log_of(job, attempt=attempt).open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def end_attempt(job: JobContext, attempt: int, *, reason: str = "it was killed", last_lines: str = "") -> None:
    ended = SubmissionExit(code=-9, reason=reason, last_lines=last_lines, at=job.clock.now())
    create_once(job.coordinator, job.paths.submission_exit(1, attempt), ended)


def next_attempt(job: JobContext, attempt: int, *, host: str = "", begun: bool = True) -> None:
    """Submit again; with a log on this host unless another one is named."""
    submission = Submission(
        attempt=attempt, submission_id=f"s-{attempt}", requested_by="test", engine="local", created_at=job.clock.now()
    )
    job.coordinator.commit(Create(job.paths.submission(1, attempt), submission.to_bytes()))
    if not host and begun:
        log_of(job, attempt=attempt).parent.mkdir(parents=True)
        log_of(job, attempt=attempt).write_text(f"attempt {attempt} begins\n")
    if begun:
        record = started(host=host or socket.gethostname(), log=str(log_of(job, attempt=attempt)))
        create_once(job.coordinator, job.paths.submission_started(1, attempt), record)


def end_run(job: JobContext) -> None:
    result = RunResult(state=JobState.FINISHED, epoch=1, at=job.clock.now())
    job.coordinator.commit(RunStore(job.coordinator, job.paths).result_op(1, result))


def test_the_log_of_the_newest_attempt_is_printed(spark_ha: Any, job: JobContext) -> None:
    write(job, "of the first")
    end_attempt(job, 1)
    next_attempt(job, 2)

    code, shown, about = spark_ha("job", "logs", "flights")

    assert (code, shown) == (YES, "attempt 2 begins\n")
    assert f"attempt 2 of run 1, {socket.gethostname()}:{log_of(job, attempt=2)}" in about


def test_another_attempt_and_run_can_be_named(spark_ha: Any, job: JobContext) -> None:
    end_attempt(job, 1)
    next_attempt(job, 2)

    _, shown, _ = spark_ha("job", "logs", "flights", "--run", "1", "--attempt", "1")

    assert shown == "attempt 1 begins\n"


def test_an_attempt_that_is_not_started_yet_does_not_hide_the_log_of_the_last_one(
    spark_ha: Any, job: JobContext
) -> None:
    end_attempt(job, 1)
    next_attempt(job, 2, begun=False)

    assert spark_ha("job", "logs", "flights")[1] == "attempt 1 begins\n"


def test_only_the_last_lines_are_printed_over_a_rotation(spark_ha: Any, job: JobContext) -> None:
    write(job, "one", "two")
    LogRotation(log_of(job), size=1, files=3).look()
    write(job, "three")

    assert spark_ha("job", "logs", "flights", "--lines", "2")[1] == "two\nthree\n"


def test_secrets_of_the_graph_and_what_looks_like_one_are_hidden(spark_ha: Any, job: JobContext) -> None:
    write(job, "token env-secret, argument-secret", "jdbc:postgresql://db/prod?password=geheim", "[not markup]")

    _, shown, _ = spark_ha("job", "logs", "flights")

    assert shown == "attempt 1 begins\ntoken ***, ***\njdbc:postgresql://db/prod?password=***\n[not markup]\n"


def test_secrets_of_the_scripts_own_conf_are_hidden(spark_ha: Any, job: JobContext) -> None:
    write_secrets(log_of(job).with_name("script.secrets"), ["of-the-script"])
    write(job, "cannot log in with of-the-script")

    assert "cannot log in with ***" in spark_ha("job", "logs", "flights")[1]


def test_the_document_has_the_place_and_the_lines(spark_ha: Any, job: JobContext) -> None:
    code, shown, _ = spark_ha("job", "logs", "flights", "--json")

    assert code == YES
    assert json.loads(shown) == {
        "job_id": "flights",
        "run": 1,
        "attempt": 1,
        "host": socket.gethostname(),
        "path": str(log_of(job)),
        "lines": ["attempt 1 begins"],
    }


def test_a_log_on_another_host_is_named_with_host_path_and_command(spark_ha: Any, job: JobContext) -> None:
    end_attempt(job, 1)
    next_attempt(job, 2, host="worker-7")

    code, shown, said = spark_ha("job", "logs", "flights")

    assert (code, shown) == (NO, "")
    assert "the driver ran on worker-7" in said
    assert str(log_of(job, attempt=2)) in said
    assert "`spark-ha job logs flights --run 1 --attempt 2` on worker-7" in said


def test_a_log_of_another_host_is_printed_where_the_work_root_is_shared(spark_ha: Any, job: JobContext) -> None:
    end_attempt(job, 1)
    next_attempt(job, 2, host="worker-7")
    log_of(job, attempt=2).parent.mkdir()
    log_of(job, attempt=2).write_text("shared\n")

    assert spark_ha("job", "logs", "flights")[:2] == (YES, "shared\n")


def test_a_log_that_is_gone_is_said_to_be_gone(spark_ha: Any, job: JobContext) -> None:
    log_of(job).unlink()
    helpers.directory(job).rmdir()

    code, _, said = spark_ha("job", "logs", "flights")

    assert code == NO
    assert "is gone" in said
    assert str(log_of(job)) in said


def test_a_driver_that_never_wrote_is_said_to_with_the_reason_and_the_log_of_its_supervisor(
    spark_ha: Any, job: JobContext
) -> None:
    log_of(job).unlink()
    end_attempt(job, 1, reason="no bin/spark-submit in '/opt/spark'")

    code, _, said = spark_ha("job", "logs", "flights")

    assert code == NO
    assert "no bin/spark-submit in '/opt/spark'" in said
    assert "supervisor.log" in said


def test_a_record_does_not_choose_the_file_that_is_read(spark_ha: Any, job: JobContext, tmp_path: Path) -> None:
    (tmp_path / "shadow").write_text("root:hash\n")
    end_attempt(job, 1)
    next_attempt(job, 2, begun=False)
    forged = started(host=socket.gethostname(), log=str(tmp_path / "shadow"))
    create_once(job.coordinator, job.paths.submission_started(1, 2), forged)

    code, shown, _ = spark_ha("job", "logs", "flights")

    assert (code, shown) == (NO, "")


@pytest.mark.parametrize("more", [(), ("--follow",)], ids=["once", "followed"])
def test_a_driver_does_not_choose_the_file_that_is_read(
    spark_ha: Any, job: JobContext, tmp_path: Path, more: tuple[str, ...]
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "driver.log").write_text("of another one\n")
    log_of(job).unlink()
    helpers.directory(job).rmdir()
    helpers.directory(job).symlink_to(tmp_path / "outside")

    code, shown, said = spark_ha("job", "logs", "flights", *more)

    assert (code, shown) == (NO, "")
    assert f"{helpers.directory(job)} is a symbolic link. It is not read" in said


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["flights", "--attempt", "7"], "no attempt 7"),
        (["flights", "--run", "3"], "no run 3"),
        (["unknown"], "is not known"),
    ],
)
def test_what_there_is_none_of_is_a_no(spark_ha: Any, job: JobContext, words: list[str], reason: str) -> None:
    del job

    code, _, said = spark_ha("job", "logs", *words)

    assert code == NO
    assert reason in said


def test_job_show_names_the_log_and_the_command(spark_ha: Any, job: JobContext) -> None:
    document = json.loads(spark_ha("job", "show", "flights", "--json")[1])

    assert document["log"] == f"{socket.gethostname()}:{log_of(job)}"
    assert document["log_command"] == "spark-ha job logs flights --run 1 --attempt 1"


def test_the_last_words_come_from_the_record_where_the_file_is_not(job: JobContext) -> None:
    log_of(job).unlink()
    end_attempt(job, 1, last_lines="ValueError: no such city")
    view = job.runs.get(1)

    assert last_words(job, view, view.submissions[0]) == "ValueError: no such city"


def test_the_last_words_come_from_the_file_where_there_is_no_record(job: JobContext) -> None:
    write(job, "password=geheim")
    view = job.runs.get(1)

    assert last_words(job, view, view.submissions[0]) == "attempt 1 begins\npassword=***"


class Followed:
    """``--follow`` in a thread, and what it has given so far."""

    def __init__(self, job: JobContext, *, lines: int = 100) -> None:
        self.text = ""
        self.attempts: list[int] = []
        self.notes: list[str] = []
        self.error: BaseException | None = None
        view = job.runs.get(1)
        parts = run_logs.follow(job, view, view.submissions[-1], lines=lines, note=self.notes.append)
        self.thread = threading.Thread(target=self._take, args=(parts,), daemon=True)
        self.thread.start()

    def _take(self, parts: Iterator[run_logs.Part]) -> None:
        try:
            for place, part in parts:
                if not part:
                    self.attempts.append(place.attempt)
                self.text += part
        except LogMissingError as error:
            self.error = error

    def ends(self) -> bool:
        """Whether it comes to its end by itself."""
        self.thread.join(20)
        return not self.thread.is_alive()

    def has(self, line: str) -> None:
        """Wait for a line."""
        wait_until(lambda: self.text.endswith(f"{line}\n"), timeout=20, what=line)


@pytest.fixture
def following(job: JobContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Followed]]:
    """Begin to follow; what still follows at the end of the test is ended by the end of the run."""
    monkeypatch.setattr(run_logs, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(run_logs, "QUIET_SECONDS", 0.2)
    begun: list[Followed] = []

    def follow(**values: int) -> Followed:
        begun.append(Followed(job, **values))
        begun[-1].has("attempt 1 begins") if values.get("lines", 1) else None
        return begun[-1]

    yield follow
    if job.runs.result(1) is None:
        end_run(job)
    for followed in begun:
        assert followed.ends()


def test_following_goes_on_over_a_rotation(job: JobContext, following: Callable[..., Followed]) -> None:
    followed = following()

    write(job, "one")
    LogRotation(log_of(job), size=1, files=3).look()
    write(job, "two")

    followed.has("two")
    assert followed.text == "attempt 1 begins\none\ntwo\n"


def test_following_goes_on_with_the_next_attempt_after_the_last_line_of_this_one(
    job: JobContext, following: Callable[..., Followed]
) -> None:
    followed = following()

    write(job, "the last line")
    end_attempt(job, 1)
    next_attempt(job, 2)
    write(job, "of the second", attempt=2)

    followed.has("of the second")
    assert followed.text == "attempt 1 begins\nthe last line\nattempt 2 begins\nof the second\n"
    assert followed.attempts == [1, 2]


def test_lines_that_come_with_the_end_of_an_attempt_are_read_before_the_next_one(
    job: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_logs, "POLL_SECONDS", 0.0)

    def lose() -> None:
        write(job, "the last line")
        end_attempt(job, 1)
        next_attempt(job, 2)

    def finish() -> None:
        write(job, "of the second", attempt=2)
        end_run(job)
        end_attempt(job, 2)

    steps, view = iter([lose, finish]), job.runs.get(1)
    stepping = replace(job, sleep=lambda _: next(steps)())

    parts = run_logs.follow(stepping, view, view.submissions[-1], lines=1, note=print)

    text = "".join(part for _, part in parts)
    assert text == "attempt 1 begins\nthe last line\nattempt 2 begins\nof the second\n"


def test_following_hides_a_secret_that_the_driver_leaves_before_it_logs_it(
    job: JobContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_logs, "POLL_SECONDS", 0.0)

    def fail() -> None:
        write_secrets(log_of(job).with_name("script.secrets"), ["left-at-last"])
        write(job, "cannot log in with left-at-last")
        end_run(job)
        end_attempt(job, 1)

    view, text = job.runs.get(1), PublicText()
    stepping = replace(job, sleep=lambda _: fail())

    shown = [text(part) for _, part in run_logs.follow(stepping, view, view.submissions[0], lines=1, note=print)]

    assert shown[-1] == "cannot log in with ***\n"


def test_following_ends_with_the_run_after_its_last_line(job: JobContext, following: Callable[..., Followed]) -> None:
    followed = following()

    end_run(job)
    write(job, "after the result")
    end_attempt(job, 1)

    assert followed.ends()
    assert followed.text.endswith("after the result\n")


def test_following_ends_at_an_attempt_of_another_host_and_names_it(
    job: JobContext, following: Callable[..., Followed]
) -> None:
    followed = following()

    end_attempt(job, 1)
    next_attempt(job, 2, host="worker-7")

    assert followed.ends()
    assert "worker-7" in str(followed.error)


def test_following_goes_on_while_zookeeper_does_not_answer(
    job: JobContext, following: Callable[..., Followed], monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = following()

    def away(*_: Any) -> Any:
        raise NotConnectedError("ZooKeeper does not answer")

    with monkeypatch.context() as cut:
        cut.setattr(RunStore, "get", away)
        wait_until(lambda: followed.notes, timeout=20, what="the note")
        write(job, "during the outage")
        followed.has("during the outage")

    assert len(followed.notes) == 1
    assert "does not answer" in followed.notes[0]


def test_following_waits_for_a_log_that_is_about_to_be_written(
    job: JobContext, following: Callable[..., Followed]
) -> None:
    end_attempt(job, 1)
    next_attempt(job, 2, begun=False)
    view = job.runs.get(1)
    del following  # for its poll

    log_of(job, attempt=2).parent.mkdir()
    parts = run_logs.follow(job, view, view.submissions[-1], lines=10, note=print)
    threading.Timer(0.2, lambda: log_of(job, attempt=2).write_text("late\n")).start()
    create_once(
        job.coordinator,
        job.paths.submission_started(1, 2),
        started(host=socket.gethostname()),
    )

    assert next(parts)[0].attempt == 2
    assert next(parts)[1] == "late\n"


def test_each_line_is_a_document_when_followed_with_json(spark_ha: Any, job: JobContext) -> None:
    end_run(job)
    end_attempt(job, 1)

    code, shown, _ = spark_ha("job", "logs", "flights", "--follow", "--json")

    assert code == YES
    assert [json.loads(line) for line in shown.splitlines()] == [
        {"job_id": "flights", "run": 1, "attempt": 1, "line": "attempt 1 begins"}
    ]
