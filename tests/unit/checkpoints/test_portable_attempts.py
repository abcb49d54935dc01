"""What appears is complete; what a killed maker left is removed, and what a live one makes is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.atomic import directory_attempt, file_attempt
from airflow_provider_ha.errors import ConfigurationError, ObjectExistsError, StorageUnavailableError
from tests.support.checkpoints import killed_attempts
from tests.support.checkpoints.portable_helpers import names_in, steps_survived


REMAINS = f".made.{'0' * 32}.tmp"


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("action", "steps"), [("create", 14), ("import", 14), ("export", 3), ("restore", 10)])
def test_a_kill_at_any_step_leaves_no_savepoint_that_looks_complete(tmp_path: Path, action: str, steps: int) -> None:
    assert steps_survived(killed_attempts.__file__, action, tmp_path) >= steps


def fail_in_a_directory(target: Path) -> None:
    with directory_attempt(target) as hidden:
        (hidden / "file").write_text("half")
        raise ValueError("mine")


def fail_in_a_file(target: Path) -> None:
    with file_attempt(target) as stream:
        stream.write(b"half")
        raise ValueError("mine")


@pytest.mark.parametrize("fail", [fail_in_a_directory, fail_in_a_file])
def test_a_failure_leaves_nothing(tmp_path: Path, fail: Callable[[Path], None]) -> None:
    with pytest.raises(ValueError, match="mine"):
        fail(tmp_path / "made")

    assert names_in(tmp_path) == []


def test_the_remains_of_a_dead_maker_are_removed(tmp_path: Path) -> None:
    (tmp_path / REMAINS / "deep").mkdir(parents=True)

    with directory_attempt(tmp_path / "made"):
        pass

    assert names_in(tmp_path) == ["made"]


def test_the_work_of_a_live_maker_stays(tmp_path: Path) -> None:
    with directory_attempt(tmp_path / "made") as first:
        (first / "file").write_text("mine")
        with pytest.raises(ValueError, match="mine"):
            fail_in_a_directory(tmp_path / "made")

    assert (tmp_path / "made" / "file").read_text() == "mine"


def test_a_file_in_the_making_stays_too(tmp_path: Path) -> None:
    with file_attempt(tmp_path / "made") as first:
        first.write(b"one")
        with pytest.raises(ValueError, match="mine"):
            fail_in_a_file(tmp_path / "made")

    assert (tmp_path / "made").read_bytes() == b"one"


def test_what_only_looks_alike_stays(tmp_path: Path) -> None:
    others = [f".made.it.{'0' * 32}.tmp", ".made.old.tmp", f".unmade.{'0' * 32}.tmp"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / REMAINS).symlink_to(tmp_path / others[0])

    with directory_attempt(tmp_path / "made"):
        pass

    assert names_in(tmp_path) == sorted([*others, REMAINS, "made"])


def make_what_somebody_else_makes_meanwhile(target: Path) -> None:
    with file_attempt(target) as stream:
        stream.write(b"mine")
        target.write_text("theirs")


def test_the_target_of_somebody_else_who_was_quicker_stays(tmp_path: Path) -> None:
    with pytest.raises(ObjectExistsError):
        make_what_somebody_else_makes_meanwhile(tmp_path / "made")

    assert (tmp_path / "made").read_text() == "theirs"
    assert names_in(tmp_path) == ["made"]


def test_a_link_to_nowhere_is_a_target_that_exists(tmp_path: Path) -> None:
    (tmp_path / "made").symlink_to(tmp_path / "nowhere")

    with pytest.raises(ObjectExistsError), directory_attempt(tmp_path / "made"):
        pass


def test_a_place_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError), directory_attempt(tmp_path / "unmounted" / "made"):
        pass

    assert names_in(tmp_path) == []


def write_into_a_directory(target: Path) -> None:
    with directory_attempt(target) as hidden:
        hidden.write_text("no file")


def test_an_error_of_the_file_system_is_no_stack_trace(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match=r"cannot make .*Is a directory"):
        write_into_a_directory(tmp_path / "made")

    assert names_in(tmp_path) == []
