"""A reader of a driver's log prints each line once, also when the log is rotated."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from airflow_provider_ha.host.process_tree import LogRotation
from airflow_provider_ha.jobs.drivers import driver_log
from airflow_provider_ha.jobs.drivers.driver_log import LogReader, last_lines, whole_lines
from airflow_provider_ha.redaction import PublicText


SIZE = 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "driver.log"
    path.touch()
    return path


@pytest.fixture
def rotation(log: Path) -> LogRotation:
    return LogRotation(log, size=1, files=4)


def append(log: Path, *lines: str) -> None:
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def everything(reader: LogReader) -> list[str]:
    return b"".join(iter(reader.read, b"")).decode().splitlines()


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, ["e"]), (3, ["c", "d", "e"]), (9, list("abcde"))])
def test_reading_begins_with_the_last_lines(log: Path, rotation: LogRotation, count: int, expected: list[str]) -> None:
    append(log, "a", "b")
    rotation.look()
    append(log, "c")
    rotation.look()
    append(log, "d", "e")

    assert everything(LogReader(log, lines=count)) == expected


def test_a_last_line_without_an_end_is_a_line(log: Path) -> None:
    log.write_text("a\nb\nc")

    assert everything(LogReader(log, lines=2)) == ["b", "c"]


def test_lines_are_found_over_more_than_one_block(log: Path) -> None:
    lines = [f"{number} " + "x" * 999 for number in range(200)]
    append(log, *lines)

    assert everything(LogReader(log, lines=150)) == lines[50:]


@pytest.mark.parametrize("rotations", [1, 2, 3])
def test_a_reader_follows_over_rotations_without_a_gap_and_without_a_repetition(
    log: Path, rotation: LogRotation, rotations: int
) -> None:
    append(log, "before", "read")
    reader = LogReader(log, lines=1)
    assert everything(reader) == ["read"]

    expected = []
    for number in range(rotations):
        append(log, f"in {number}")
        expected.append(f"in {number}")
        rotation.look()
    append(log, "after")

    assert everything(reader) == [*expected, "after"]


def test_a_rotation_between_two_pieces_of_a_kept_file_changes_nothing(log: Path, rotation: LogRotation) -> None:
    lines = [f"{number} " + "x" * 999 for number in range(100)]
    append(log, *lines)
    reader = LogReader(log, lines=1000)
    begin = reader.read()
    rotation.look()
    begin += reader.read()
    append(log, "next")
    rotation.look()

    assert (begin.decode() + "\n".join(everything(reader))).splitlines() == [*lines, "next"]


def test_a_reader_that_more_rotations_overtook_than_are_kept_goes_on_with_the_oldest(
    log: Path, rotation: LogRotation
) -> None:
    append(log, "zero")
    rotation.look()
    append(log, "read")
    reader = LogReader(log, lines=1)
    assert everything(reader) == ["read"]

    for number in range(5):
        append(log, f"in {number}")
        rotation.look()

    assert everything(reader) == ["in 2", "in 3", "in 4"]


def test_a_log_that_was_cut_and_not_kept_is_read_from_its_new_begin(log: Path) -> None:
    append(log, "read " + "x" * 100)
    reader = LogReader(log, lines=1)
    assert len(everything(reader)) == 1

    log.write_text("begun again\n")

    found = [reader.read() for _ in range(driver_log._LOOKS + 2)]
    assert b"".join(found) == b"begun again\n"


def test_a_cut_log_whose_kept_file_has_no_name_yet_is_waited_for(log: Path, rotation: LogRotation) -> None:
    append(log, "read")
    reader = LogReader(log, lines=1)
    assert everything(reader) == ["read"]
    append(log, "not read yet")
    content = log.read_text()

    log.write_text("")
    assert reader.read() == b""
    (log.parent / "driver.log.1").write_text(content)

    assert everything(reader) == ["not read yet"]


def test_what_was_there_has_an_end_also_while_a_driver_writes(log: Path, rotation: LogRotation) -> None:
    append(log, "a")
    rotation.look()
    append(log, "b", "c")
    found = b""

    for data in islice(LogReader(log, lines=3).now(), 10):
        found += data
        append(log, "later")

    assert found == b"a\nb\nc\n"


def test_last_lines_are_bounded_and_without_secrets(log: Path) -> None:
    append(log, *(f"{number} " + "x" * 999 for number in range(100)), "password=geheim")

    text = last_lines(log)

    assert len(text) <= driver_log.TAIL_CHARACTERS
    assert text.endswith("password=***")


def test_reading_of_so_many_bytes_begins_with_a_whole_line(log: Path) -> None:
    append(log, "x" * 150, "y" * 60, "z" * 30)

    assert everything(LogReader(log, lines=100, most=100)) == ["y" * 60, "z" * 30]


def test_the_end_of_a_line_that_is_longer_than_what_is_read_is_given(log: Path) -> None:
    append(log, "x" * 150)

    assert everything(LogReader(log, lines=100, most=100)) == ["x" * 99]


def test_last_lines_of_a_log_that_is_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"driver\.log"):
        last_lines(tmp_path / "driver.log")


def test_parts_of_a_text_end_with_a_line() -> None:
    assert list(whole_lines([b"a\nb", b"c\n", b"d"])) == ["a\n", "bc\n", "d"]


def test_a_line_that_never_ends_is_given_in_parts() -> None:
    parts = list(whole_lines([b"x" * driver_log.CHUNK] * 3))

    assert [len(part) for part in parts] == [driver_log.CHUNK] * 3


def test_a_part_is_never_longer_than_what_is_searched_for_secrets() -> None:
    pieces = [b"x" * 30_000, b"x" * (driver_log.CHUNK - 1) + b"\n", b"end\n"]

    parts = list(whole_lines(pieces))

    assert "".join(parts) == b"".join(pieces).decode()
    assert max(map(len, parts)) <= driver_log.CHUNK


def test_no_line_is_left_out_after_a_long_one(log: Path) -> None:
    lines = ["begin" * 2000, "a" * 32_000, *(f"{number} " + "b" * 1000 for number in range(40))]
    append(log, *lines, "password=geheim")
    public, reader = PublicText(), LogReader(log, lines=100)

    text = "".join(public(part) for part in whole_lines(reader.now()))

    assert text.splitlines() == [*lines, "password=***"]
