"""What is made before the first test: nothing is made twice, and what cannot be had stops nothing else."""

from __future__ import annotations

import pytest

from tests.support.preparation import QUICK, prepare


def test_what_cannot_be_had_is_said_and_the_others_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    made = list[str]()

    prepare([lambda: pytest.skip("no go on this machine"), lambda: made.append("jars")])

    assert made == ["jars"]
    assert capsys.readouterr().out == "going on without it: no go on this machine\n"


@pytest.mark.slow
@pytest.mark.spark  # records its checkpoints
def test_what_is_there_is_not_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    prepare(QUICK)
    capsys.readouterr()

    prepare(QUICK)

    assert capsys.readouterr().out == ""
