"""How a driver's process ends for each thing that goes wrong before, during and after its script."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.driver import driver as led_driver
from airflow_provider_ha.driver import main
from airflow_provider_ha.driver.assembly import Assembly
from airflow_provider_ha.driver.checkpointing.origin import OriginKind
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.run_end import DriverEnd
from airflow_provider_ha.driver.members import driver_session as leading
from airflow_provider_ha.driver.members.housekeeping import Housekeeping
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    ConfigurationError,
    DecisionNeededError,
    HaError,
    JobStateError,
    NotConnectedError,
    OperationFailedError,
    RestoreRefusedError,
    StorageUnavailableError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE
from airflow_provider_ha.jobs.model import JobState
from tests.engine_helpers import CONFIG


class Left(BaseException):
    """The process has ended."""


class WayOut:
    """Ends no process, and remembers how it would have ended."""

    def __init__(self) -> None:
        self.how: list[tuple[Any, ...]] = []

    def leave(self, code: ExitCode, reason: str = "", **_: object) -> None:
        self.how.append((code, reason))
        raise Left

    def thread_failed(self, error: BaseException) -> None:
        if isinstance(error, Left):
            raise error
        self.how.append(("thread failed", error))
        raise Left

    def leadership_lost(self, reason: str) -> None:
        raise NotImplementedError


@pytest.fixture
def way_out() -> WayOut:
    return WayOut()


def entered(way_out: WayOut, monkeypatch: pytest.MonkeyPatch, **parts: Any) -> tuple[Any, ...]:
    """Enter the driver with some of its parts replaced, and return how its process ended."""
    parts = {
        "log_beside_the_script": MagicMock(),
        "Watchdog": MagicMock(),
        "reserve": MagicMock(),
        "preload": MagicMock(),
        "lead": MagicMock(),
    } | parts
    for name, part in parts.items():
        monkeypatch.setattr(main, name, part)
    monkeypatch.setattr(main, "ProcessTerminator", lambda _: way_out)
    spec = SimpleNamespace(
        config=CONFIG,
        home=SimpleNamespace(directory=Path()),
        ticket=SimpleNamespace(is_standby=False),
        forget=lambda: None,
    )
    monkeypatch.setattr(main, "DriverSpec", SimpleNamespace(read=lambda _: spec))
    monkeypatch.setenv(SPEC_VARIABLE, "spec.json")
    with pytest.raises(Left):
        main.main()
    (how,) = way_out.how
    return how


def failing(error: BaseException) -> Any:
    return MagicMock(side_effect=error)


BUG = ZeroDivisionError("a mistake")


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (JobStateError("run 1 has a result"), (ExitCode.NOT_ADMITTED, "run 1 has a result.")),
        (NotConnectedError("no server answers"), (ExitCode.OUTAGE, "no server answers.")),
        (ConfigurationError("no such root"), (ExitCode.FAILED, "no such root.")),
        (BUG, ("thread failed", BUG)),
    ],
    ids=["not admitted", "outage", "wrong", "mistake"],
)
def test_a_driver_that_cannot_lead_ends_with_what_kept_it(
    way_out: WayOut, monkeypatch: pytest.MonkeyPatch, error: BaseException, how: tuple[Any, ...]
) -> None:
    assert entered(way_out, monkeypatch, lead=failing(error)) == how


def test_whatever_a_leading_driver_raises_ends_its_process(way_out: WayOut, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lived on would hold the lock."""
    monkeypatch.setattr(led_driver, "Driver", failing(BUG))

    assert entered(way_out, monkeypatch) == ("thread failed", BUG)


def driver(way_out: WayOut, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """Return a driver that leads, and the writer of its run."""
    writer = MagicMock()
    monkeypatch.setattr(led_driver, "JobWriter", lambda **_: writer)
    made = object.__new__(led_driver.Driver)
    made._exit = way_out  # type: ignore[assignment]
    made._clock = MagicMock()
    made._led, made._keys, made._area, made._spark = MagicMock(), MagicMock(), MagicMock(), None
    made._spec, made._checkpoints = MagicMock(), MagicMock()
    monkeypatch.setattr(led_driver, "read_record", lambda *_: None)
    monkeypatch.setattr(made, "_published", dict)
    monkeypatch.setattr(led_driver, "JobJournal", MagicMock())
    return made, writer


def test_an_outage_before_the_script_leaves_the_run_to_the_next_driver(
    way_out: WayOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, writer = driver(way_out, monkeypatch)
    monkeypatch.setattr(led_driver, "prepare_start", failing(StorageUnavailableError("the work root does not answer")))

    with pytest.raises(Left):
        made.run()

    assert way_out.how == [(ExitCode.OUTAGE, "the work root does not answer.")]
    writer.end.assert_not_called()


def test_what_no_next_driver_can_do_better_is_an_error_of_this_one(
    way_out: WayOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, writer = driver(way_out, monkeypatch)
    monkeypatch.setattr(led_driver, "prepare_start", failing(ConfigurationError("the plan names another root")))

    with pytest.raises(ConfigurationError, match="another root"):
        made.run()

    writer.end.assert_not_called()


def test_a_restore_that_is_refused_ends_its_run(way_out: WayOut, monkeypatch: pytest.MonkeyPatch) -> None:
    made, writer = driver(way_out, monkeypatch)
    monkeypatch.setattr(led_driver, "prepare_start", failing(RestoreRefusedError("the output has changed")))

    with pytest.raises(Left):
        made.run()

    writer.end.assert_called_once_with(JobState.FAILED, reason="the output has changed.")
    assert way_out.how == [(ExitCode.REFUSED, "the output has changed.")]


def test_a_fallback_that_needs_a_decision_leaves_the_run_as_it_is(
    way_out: WayOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, writer = driver(way_out, monkeypatch)
    monkeypatch.setattr(led_driver, "prepare_start", failing(DecisionNeededError("decide it")))

    with pytest.raises(Left):
        made.run()

    assert way_out.how == [(ExitCode.DECISION_NEEDED, "decide it.")]
    writer.end.assert_not_called()


def test_a_conf_that_is_refused_ends_its_run_before_the_script(
    way_out: WayOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, writer = driver(way_out, monkeypatch)
    monkeypatch.setattr(made, "_prepare", lambda _: None)
    monkeypatch.setattr(Assembly, "parts", failing(ApplicationRefusedError("the checkpoint location is set")))

    with pytest.raises(Left):
        made.run()

    writer.end.assert_called_once_with(JobState.FAILED, reason="the checkpoint location is set.")
    assert [code for code, _ in way_out.how] == [ExitCode.REFUSED]


def ending(way_out: Any, *, kind: OriginKind = OriginKind.FRESH, refusal: HaError | None = None) -> Any:
    """Return the end of a script that has started one query."""
    lifecycle = Lifecycle()
    lifecycle.refusal = refusal
    registry = SimpleNamespace(failure=lambda: None, started=["q"], aside=(), note_commits=lambda _: None)
    origin = SimpleNamespace(kind=kind, key="k", reach=StorageAccess())
    parts = MagicMock(lifecycle=lifecycle, registry=registry, origin=origin)
    parts.script.advice.return_value = ""
    return DriverEnd(MagicMock(), MagicMock(), way_out, parts)


def concluded(way_out: WayOut, end: Any, failure: str | None = None) -> tuple[Any, ...]:
    with pytest.raises(Left):
        end.conclude(failure)
    (how,) = way_out.how
    return how


def test_a_script_that_failed_ends_the_driver_and_not_the_run(way_out: WayOut) -> None:
    end = ending(way_out)
    end.parts.script.error = None

    assert concluded(way_out, end, "app.py failed: ValueError") == (ExitCode.FAILED, "app.py failed: ValueError")

    end.parts.writer.end.assert_not_called()


def test_an_output_that_does_not_fit_a_fallback_needs_a_decision(way_out: WayOut) -> None:
    """The run has lost nothing yet: it neither ends nor is it tried again."""
    refusal = RestoreRefusedError("the output has changed")
    end = ending(way_out, kind=OriginKind.FALLBACK, refusal=refusal)

    assert concluded(way_out, end) == (ExitCode.DECISION_NEEDED, "the output has changed.")

    end.parts.writer.end.assert_not_called()


@pytest.mark.parametrize(
    ("kind", "code", "over"),
    [
        (OriginKind.RECOVERY, ExitCode.UNFIT, False),
        (OriginKind.FALLBACK, ExitCode.UNFIT, False),
        (OriginKind.FRESH, ExitCode.REFUSED, True),
        (OriginKind.RESTORE, ExitCode.REFUSED, True),
    ],
)
def test_executors_without_the_component_end_only_a_run_that_has_never_worked(
    way_out: WayOut, kind: OriginKind, code: ExitCode, over: bool
) -> None:
    end = ending(way_out, kind=kind, refusal=ConfigurationError("the executors do not have the component"))

    assert concluded(way_out, end) == (code, "the executors do not have the component.")

    assert end.parts.writer.end.called is over


def test_a_script_without_a_query_ends_the_run(way_out: WayOut) -> None:
    end = ending(way_out)
    end.parts.registry.started = []

    code, reason = concluded(way_out, end)

    assert (code, reason) == (ExitCode.REFUSED, "the script ended without a streaming query.")
    end.parts.writer.end.assert_called_once_with(JobState.FAILED, reason=reason)


CHANGED = RestoreRefusedError("the output has changed")


@pytest.mark.parametrize(
    ("refusal", "kind", "code", "over"),
    [
        (ApplicationRefusedError("a query has no name"), OriginKind.RECOVERY, ExitCode.REFUSED, True),
        (CHANGED, OriginKind.RESTORE, ExitCode.REFUSED, True),
        (CHANGED, OriginKind.RECOVERY, ExitCode.FAILED, False),
    ],
    ids=["a script", "an output at the start", "an output after a loss: looked at once more"],
)
def test_what_was_refused_ends_the_run_when_no_restart_can_help(
    way_out: WayOut, refusal: HaError, kind: OriginKind, code: ExitCode, over: bool
) -> None:
    end = ending(way_out, kind=kind, refusal=refusal)

    assert concluded(way_out, end) == (code, str(refusal))

    assert end.parts.writer.end.called is over


def test_a_stop_that_failed_half_way_starts_the_run_again(way_out: WayOut) -> None:
    with pytest.raises(Left):
        ending(way_out).stopped("the disk is full")

    assert way_out.how == [(ExitCode.RESTART_WANTED, "the disk is full")]


def test_a_stop_ends_the_process_although_the_script_continues(way_out: WayOut) -> None:
    end = ending(way_out)

    with pytest.raises(Left):
        end.stopped(None)

    assert way_out.how == [(ExitCode.DONE, "")]
    end.parts.main_thread.finish.assert_not_called()


def test_a_cancel_names_its_operation_and_writes_no_result(way_out: WayOut) -> None:
    end = ending(way_out)
    end.led.run.number = 7

    with pytest.raises(Left):
        end.cancel(SimpleNamespace(operation_id="cancel-1"))

    assert way_out.how == [(ExitCode.CANCELED, "operation cancel-1 cancels run 7")]
    end.parts.writer.end.assert_not_called()


def test_a_drain_whose_script_fails_is_none(way_out: WayOut) -> None:
    end = ending(way_out)
    end.parts.script.run.return_value = "app.py failed: ValueError"

    with pytest.raises(OperationFailedError, match=r"the drain failed: app.py failed: ValueError"):
        end.drain(MagicMock())


def keeping(**checkpoints: Any) -> tuple[Housekeeping, Any]:
    runs = MagicMock(results=lambda numbers: dict.fromkeys(numbers, SimpleNamespace(cleanup="DIRTY")))
    area = MagicMock(list=lambda _: [])
    return Housekeeping(runs, MagicMock(), MagicMock(**checkpoints), area, "live/e1-a"), runs


def test_checkpoints_that_stay_on_the_list_keep_no_run_from_its_clean_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept, runs = keeping(shutdown=failing(OSError("the disk fails")))
    monkeypatch.setattr(Housekeeping, "_superfluous", lambda _: [])

    kept.finish(3)

    assert "old checkpoints stay on the list of deletions" in caplog.text
    runs.clean_op.assert_called_once_with(3)


def test_a_result_that_another_process_marked_needs_no_mark(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept, _ = keeping()
    monkeypatch.setattr(Housekeeping, "_superfluous", lambda _: [])
    monkeypatch.setattr(kept.leadership, "commit", failing(VersionConflictError("changed")))

    kept.finish(3)

    assert caplog.text == ""


def test_a_session_that_is_lost_right_after_it_came_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KazooCoordinator, "connect", lambda *_, **__: SimpleNamespace(session=None))

    with pytest.raises(NotConnectedError, match="there is no session"):
        leading.lead(MagicMock(), MagicMock())


def test_the_gate_is_closed_before_the_lock_is_given_back() -> None:
    end = ending(WayOut())
    done = MagicMock()
    end.parts.component.close, end.led.leadership.release = done.close, done.release

    with pytest.raises(Left):
        end._leave_finished()

    assert [name for name, _, _ in done.mock_calls] == ["close", "release"]
