"""The reason that a driver leaves behind: one, whole, and also on a full disk."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.driver.ending.exit_reason import (
    FAILURE_FILE,
    REASON_LIMIT,
    ROOM,
    ExitCode,
    read_details,
    read_failure,
    reserve,
    write_failure,
)
from airflow_provider_ha.jobs.runs.submissions import Failure


def test_the_first_reason_of_a_failure_stays(tmp_path: Path) -> None:
    reserve(tmp_path)

    write_failure(tmp_path, ExitCode.FAILED, "the cause")
    write_failure(tmp_path, ExitCode.LEADERSHIP_LOST, "its echo")

    assert read_failure(tmp_path) == "the cause"


def test_a_reason_that_fills_the_reserved_room_is_read_back(tmp_path: Path) -> None:
    reserve(tmp_path)
    longest = "\N{GRINNING FACE}" * REASON_LIMIT

    write_failure(tmp_path, ExitCode.FAILED, longest + "!")

    assert read_failure(tmp_path) == longest


def test_the_reason_is_for_its_owner_only(tmp_path: Path) -> None:
    reserve(tmp_path)

    write_failure(tmp_path, ExitCode.FAILED, "the cause")

    assert stat.S_IMODE((tmp_path / FAILURE_FILE).stat().st_mode) == 0o600


def test_a_reason_that_cannot_be_written_or_said_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that leaves it is about to end the process, and has to get there."""
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        write_failure(tmp_path / "nowhere", ExitCode.FAILED, "the cause")
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # so that closing it does not raise


ON_A_FULL_DISK = """
import os, sys
from pathlib import Path
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.exit_reason import read_failure, reserve, write_failure
directory = Path(sys.argv[1])
reserve(directory)
try:
    with (directory / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 4096)
except OSError as error:
    print(error.errno)
write_failure(directory, ExitCode.FAILED, "the cause")
print(read_failure(directory))
"""


def test_a_full_disk_keeps_no_reason_from_being_written(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m tmpfs {tmp_path} && "
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*command, mount + "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this host does not let a user mount a file system")

    run = subprocess.run(
        [*command, mount + f"exec {sys.executable} -c '{ON_A_FULL_DISK}' {tmp_path}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.split("\n")[:2] == ["28", "the cause"]


def test_what_the_failure_was_is_read_back_beside_the_longest_reason(tmp_path: Path) -> None:
    reserve(tmp_path)
    wide = "\N{GRINNING FACE}"
    told = Failure(error_class=wide * 200, message=wide * 500, query="q", batches={"q": 4}, location=wide * 200)

    write_failure(tmp_path, ExitCode.FAILED, wide * REASON_LIMIT, told)

    assert read_details(tmp_path) == told
    assert (tmp_path / FAILURE_FILE).stat().st_size < ROOM


def test_failure_without_details_has_none(tmp_path: Path) -> None:
    write_failure(tmp_path, ExitCode.FAILED, "the cause")

    assert read_details(tmp_path) is None
    assert read_details(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("query", "batches", "said"),
    [
        ("rows", {"rows": 4}, "query 'rows' after batch 4"),
        ("rows", {"rows": -1}, "query 'rows' before its first batch"),
        (None, {"rows": 4, "late": -1}, "the script after batch 4 of 'rows'"),
        (None, {}, "the script before any batch"),
        (None, None, "the script before any batch"),
    ],
)
def test_position_names_the_query_and_what_it_has_committed(
    query: str | None, batches: dict[str, int] | None, said: str
) -> None:
    assert Failure(query=query, batches=batches).position == said
