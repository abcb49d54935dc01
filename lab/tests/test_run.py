"""``make proof`` shows what a suite tells as it is."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab import run
from lab.suite import Proof


pytestmark = pytest.mark.slow  # imports every suite


class Brackets:
    name, title, about = "brackets", "Brackets", "Each is shown."

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        tell("told [red]")
        return Proof(["test"], [["row [/x]"]], untrue=["test[a b] failed."])


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_brackets_of_a_test_are_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "SUITES", (Brackets(),))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "PAGE", tmp_path / "page.md")

    code = run.main(["brackets", "--folder", str(tmp_path)])

    shown = capsys.readouterr().out
    assert code == 1
    assert all(text in shown for text in ("told [red]", "row [/x]", "test[a b] failed."))


def test_the_readme_names_each_suite() -> None:
    readme = (run.ROOT / "lab" / "README.md").read_text(encoding="utf-8")

    assert [suite.name for suite in run.SUITES if f"| `make proof SUITE={suite.name}` |" not in readme] == []
