"""What a driver puts in the place of its log is not followed, does not block, and is named for what it is."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.errors import LogMissingError
from airflow_provider_ha.jobs.drivers.driver_home import PlainFiles
from airflow_provider_ha.jobs.drivers.driver_log import LogReader, last_lines
from airflow_provider_ha.jobs.drivers.driver_spec import read_secrets, write_secrets


FOREIGN = "fernet_key = abracadabra\n"
A_PIPE_BLOCKS = pytest.mark.timeout(20)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A work root with the directory of an attempt."""
    (tmp_path / "root" / "jobs" / "1-1").mkdir(parents=True)
    return tmp_path / "root"


@pytest.fixture
def home(root: Path) -> Path:
    return root / "jobs" / "1-1"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory of this host that no driver may show, with a file of every name that is read."""
    made = tmp_path / "etc"
    made.mkdir()
    (made / "driver.log").write_text(FOREIGN)
    write_secrets(made / "script.secrets", {"of-another"})
    return made


def link(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign / "driver.log")


def pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def directory(path: Path, _: Path) -> None:
    path.mkdir()


def descriptors() -> int:
    """Return how many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def read(home: Path, root: Path) -> bytes:
    with PlainFiles(home, root).opened("driver.log") as file:
        return file.read()


def test_a_file_is_read(home: Path, root: Path) -> None:
    (home / "driver.log").write_text("line\n")

    assert read(home, root) == b"line\n"
    assert PlainFiles(home, root).size("driver.log") == 5


def test_a_file_that_is_not_there_is_an_error_of_the_system(home: Path, root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"driver\.log"):
        read(home, root)


@A_PIPE_BLOCKS
@pytest.mark.parametrize(
    ("put", "kind"),
    [(link, "a symbolic link"), (pipe, "a pipe"), (directory, "a directory")],
    ids=["link", "pipe", "directory"],
)
def test_what_is_no_file_is_not_read_and_named(
    home: Path, root: Path, foreign: Path, put: Callable[[Path, Path], None], kind: str
) -> None:
    put(home / "driver.log", foreign)

    with pytest.raises(LogMissingError) as caught:
        read(home, root)

    assert f"{home}/driver.log is {kind}. It is not read" in str(caught.value)


def test_a_pipe_holds_up_no_reader(home: Path, root: Path) -> None:
    pipe(home / "driver.log", home)
    refused: list[LogMissingError] = []

    def look() -> None:
        try:
            read(home, root)
        except LogMissingError as error:
            refused.append(error)

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    reader.join(timeout=10)

    assert refused, "it waits for a writer"


def test_a_socket_is_not_read_and_named(home: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("driver.log")

    with pytest.raises(LogMissingError, match="is a socket"):
        read(home, root)


@pytest.mark.parametrize("place", ["jobs", "jobs/1-1"])
def test_a_directory_below_the_root_is_not_reached_by_a_link(root: Path, foreign: Path, place: str) -> None:
    (root / "jobs" / "1-1").rmdir()
    (root / "jobs").rmdir()
    (foreign / "1-1").symlink_to(foreign)  # so that each place would lead to a log
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).symlink_to(foreign)

    with pytest.raises(LogMissingError, match=f"{re.escape(str(root / place))} is a symbolic link"):
        read(root / "jobs" / "1-1", root)


def test_a_link_may_lead_to_the_root(tmp_path: Path, root: Path, home: Path) -> None:
    (home / "driver.log").write_text("line\n")
    mounted = tmp_path / "mounted"
    mounted.symlink_to(root)

    assert read(mounted / "jobs" / "1-1", mounted) == b"line\n"


def test_no_descriptor_is_left_open(home: Path, root: Path, foreign: Path) -> None:
    link(home / "driver.log", foreign)
    (home / "driver.log.1").mkdir()
    before = descriptors()

    for name in ("driver.log", "driver.log.1", "driver.log.2"):
        with pytest.raises((OSError, LogMissingError)), PlainFiles(home, root).opened(name):
            pass
    PlainFiles(home, root).found(re.compile("driver.*"))

    assert descriptors() == before


@A_PIPE_BLOCKS
@pytest.mark.parametrize("put", [link, pipe])
def test_a_log_that_is_no_file_has_no_last_lines(home: Path, foreign: Path, put: Callable[[Path, Path], None]) -> None:
    put(home / "driver.log", foreign)

    with pytest.raises(LogMissingError, match="It is not read"):
        last_lines(home / "driver.log")


@A_PIPE_BLOCKS
def test_only_files_count_as_rotated_out_of_a_log(home: Path, foreign: Path) -> None:
    (home / "driver.log").write_text("line\n")
    link(home / "driver.log.1", foreign)
    pipe(home / "driver.log.2", foreign)

    assert b"".join(LogReader(home / "driver.log", lines=100).now()) == b"line\n"


def test_a_log_that_becomes_a_link_is_not_followed(home: Path, foreign: Path) -> None:
    (home / "driver.log").write_text("line\n")
    reader = LogReader(home / "driver.log", lines=100)
    (home / "driver.log").unlink()
    link(home / "driver.log", foreign)

    with pytest.raises(LogMissingError, match="a symbolic link"):
        reader.read()


def test_secrets_that_were_left_are_read(home: Path, root: Path) -> None:
    write_secrets(home / "script.secrets", {"of-the-script"})

    assert read_secrets(home / "script.secrets", root=root) == {"of-the-script"}


@A_PIPE_BLOCKS
@pytest.mark.parametrize(
    "put",
    [
        lambda path, foreign: path.symlink_to(foreign / "script.secrets"),
        pipe,
        lambda path, _: path.write_text("[" * 500_000),
        lambda path, _: path.write_text(json.dumps(["x" * 100] * 20_000)),
    ],
    ids=["link", "pipe", "deep", "large"],
)
def test_what_is_no_list_of_secrets_has_none(home: Path, foreign: Path, put: Callable[[Path, Path], object]) -> None:
    put(home / "script.secrets", foreign)

    assert read_secrets(home / "script.secrets") == set()
