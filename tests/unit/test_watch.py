"""Showing something again and again: until Ctrl-C, over outages, and once without a watch."""

from __future__ import annotations

import pytest

from airflow_provider_ha.cli import session
from airflow_provider_ha.cli.session import repeated
from airflow_provider_ha.errors import HaError, NotConnectedError, UnknownJobError


class Looks:
    """Looks that fail as the test says; the time between two passes at once, and Ctrl-C comes after the last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: HaError | None) -> None:
        self.failures = list(failures)
        self.count = 0
        self.waits: list[float] = []
        monkeypatch.setattr(session, "sleep", self._wait)

    def __call__(self) -> None:
        failure = self.failures[self.count]
        self.count += 1
        if failure is not None:
            raise failure

    def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        if self.count == len(self.failures):
            raise KeyboardInterrupt


def test_without_a_watch_it_is_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, None, None)

    repeated(looks, None)

    assert (looks.count, looks.waits) == (1, [])


def test_it_is_shown_again_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch, None, None, None)

    repeated(looks, 2.0)

    assert (looks.count, looks.waits) == (3, [2.0, 2.0, 2.0])


def test_an_outage_is_shown_and_waited_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    looks = Looks(monkeypatch, None, NotConnectedError("no server answers"), None)

    repeated(looks, 2.0)

    assert looks.count == 3
    assert "no server answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "failures",
    [(NotConnectedError("no server answers"), None), (None, UnknownJobError("there is no such job"), None)],
    ids=["at the first look", "what waiting does not resolve"],
)
def test_other_failures_end_it(monkeypatch: pytest.MonkeyPatch, failures: tuple[HaError | None, ...]) -> None:
    looks = Looks(monkeypatch, *failures)

    with pytest.raises(HaError):
        repeated(looks, 2.0)

    assert looks.count < len(failures)
