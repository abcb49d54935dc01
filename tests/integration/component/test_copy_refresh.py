"""Copies of a checkpoint's state on the host of a standby driver, fetched from the store."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import Copies, Counted


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
ID = "0b7e6f1a-4f98-49f2-9844-b641db3621eb"
TABLE = f"state/0/3/SSTs/000008-{ID}.sst"
RATE = 1_000_000_000


def version(number: int) -> str:
    return f"state/0/3/{number}_{ID}.zip"


Stored = Callable[..., list[str]]


@pytest.fixture
def stored(copies: Copies) -> Stored:
    """Have the store alone hold a version and its tables; returns the locations."""

    def store(number: int, *tables: str) -> list[str]:
        names = [*tables, version(number)]
        for name in names:
            path = copies.local.own / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
        metadata = {"sstFiles": [{"dfsSstFileName": Path(table).name} for table in tables]}
        with zipfile.ZipFile(copies.local.own / version(number), "w") as archive:
            archive.writestr("metadata", f"v1\n{json.dumps(metadata)}")
        return [f"file://{copies.local.own}/{name}" for name in names]

    return store


def fetch(copies: Copies, files: list[str], rate: int = RATE) -> int:
    return int(
        copies.jvm.classes.CopyRefresh(copies.conf, str(copies.folder), str(copies.megabytes), rate).fetch(files)
    )


def test_a_state_that_was_fetched_is_read_without_the_store(copies: Copies, stored: Stored, counted: Counted) -> None:
    files = stored(17, TABLE)
    content, whole = ((copies.local.own / name).read_bytes() for name in (TABLE, version(17)))

    assert fetch(copies, files) == 2
    copies.lose(TABLE)
    copies.lose(version(17))
    assert (copies.read(TABLE), copies.read(version(17))) == (content, whole)
    assert counted["copy_wrong"] == counted["copy_error"] == 0


def test_what_has_a_copy_is_not_fetched_again(copies: Copies, stored: Stored) -> None:
    files = stored(17, TABLE)

    assert (fetch(copies, files), fetch(copies, files)) == (2, 0)


def test_an_older_version_goes_when_a_newer_one_was_fetched(copies: Copies, stored: Stored) -> None:
    other = TABLE.replace("000008", "000009")
    for number in (15, 16, 17):
        fetch(copies, stored(number, TABLE if number < 17 else other))

    assert copies.held() == sorted(Path(name).name for name in (TABLE, other, version(16), version(17)))


def test_the_changes_after_a_snapshot_stay(copies: Copies, stored: Stored) -> None:
    files = stored(15, TABLE)
    for number in (16, 17):
        changes = version(number).replace(".zip", ".changelog")
        (copies.local.own / changes).write_bytes(b"changes")
        files.append(f"file://{copies.local.own}/{changes}")

    assert fetch(copies, files) == 4
    assert copies.held() == sorted(file.rpartition("/")[2] for file in files)


def test_copies_of_a_task_that_is_ahead_of_the_checkpoint_stay(copies: Copies, stored: Stored) -> None:
    fetch(copies, stored(18))

    assert fetch(copies, stored(17, TABLE)) == 0
    assert copies.held() == [Path(version(18)).name]


def test_a_refresh_that_misses_a_file_in_the_store_is_over_and_incomplete(
    copies: Copies, stored: Stored, counted: Counted
) -> None:
    files = stored(17, TABLE)
    copies.lose(TABLE)

    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        fetch(copies, files)
    assert copies.held() == []
    assert counted["copy_error"] == 1


def test_names_that_are_written_again_are_not_fetched(copies: Copies) -> None:
    name = "state/0/3/17.zip"
    (copies.local.own / "state" / "0" / "3").mkdir(parents=True)
    (copies.local.own / name).write_bytes(b"format 1")

    assert fetch(copies, [f"file://{copies.local.own}/{name}"]) == 0


def test_a_refresh_that_was_stopped_fetches_nothing(copies: Copies, stored: Stored) -> None:
    refresh = copies.jvm.classes.CopyRefresh(copies.conf, str(copies.folder), "10000", RATE)
    refresh.stop()

    assert refresh.fetch(stored(17, TABLE)) == 0
