"""Class archives in a directory: whose files are used, and what damage refuses them."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.archives.archive_store import AGAIN, UNUSED, ArchiveNote, ArchiveStore


KEY = "0123456789abcdef"
CONTENT = bytes(range(256)) * 64
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
OTHER_USER = 65534


class SetClock(SystemClock):
    """A clock that a test sets."""

    moment = NOON

    def now(self) -> datetime:
        """Return the set time."""
        return self.moment


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(tmp_path: Path, clock: SetClock) -> ArchiveStore:
    return ArchiveStore(tmp_path / "archives", clock=clock)


def make(store: ArchiveStore, key: str = KEY) -> Path:
    """Publish an archive as a training does."""
    with store.training() as made:
        assert made is not None
        made.write_bytes(CONTENT)
        note = ArchiveNote(
            key=key,
            length=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            java="/usr/bin/java",
            spark="4.2.0",
            seconds=1.0,
            made_at=NOON,
        )
        store.publish(made, note)
    return store.path(key)


def use(store: ArchiveStore, key: str = KEY) -> Path:
    """Find and verify an archive as a driver's start does."""
    found = store.find(key)
    assert found is not None
    store.verify(found)
    return found.path


def test_a_published_archive_is_used(store: ArchiveStore) -> None:
    made = make(store)

    assert use(store) == made
    assert store.directory.stat().st_mode & 0o777 == 0o700


def test_a_missing_archive_is_none(store: ArchiveStore) -> None:
    assert store.find(KEY) is None
    assert store.archives() == []


def test_an_archive_without_its_note_is_none(store: ArchiveStore) -> None:
    """A training that was killed between the two renames."""
    make(store).with_suffix(".json").unlink()

    assert store.find(KEY) is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one byte": lambda content: content[:1],
    "a third": lambda content: content[: len(content) // 3],
    "without its last page": lambda content: content[:-4096],
    "flipped in the header": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "flipped in the body": lambda content: content[:9000] + bytes([content[9000] ^ 1]) + content[9001:],
    "longer": lambda content: content + b"\0",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused(store: ArchiveStore, damage: str) -> None:
    path = make(store)
    path.chmod(0o600)
    path.write_bytes(DAMAGES[damage](CONTENT))

    with pytest.raises(ConfigurationError, match="is damaged"):
        use(store)


def replace_by_link(path: Path) -> None:
    copy = path.with_name("copy")
    path.rename(copy)
    path.symlink_to(copy)


def give_to_another_user(path: Path) -> None:
    os.chown(path, OTHER_USER, -1)


def let_the_group_write(path: Path) -> None:
    path.chmod(0o660)


@pytest.mark.parametrize("exchange", [replace_by_link, give_to_another_user, let_the_group_write])
@pytest.mark.parametrize("suffix", [".jsa", ".json"])
def test_a_file_that_another_user_may_have_written_is_refused(
    store: ArchiveStore, suffix: str, exchange: Callable[[Path], None]
) -> None:
    if exchange is give_to_another_user and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    exchange(make(store).with_suffix(suffix))

    with pytest.raises(ConfigurationError, match=r"only this user can write|cannot be read"):
        use(store)


def test_a_directory_with_another_mode_is_refused(store: ArchiveStore) -> None:
    make(store)
    store.directory.chmod(0o750)

    with pytest.raises(ConfigurationError, match="with mode 0700"):
        use(store)


def test_a_directory_that_is_a_link_is_refused(store: ArchiveStore) -> None:
    make(store)
    moved = store.directory.rename(store.directory.with_name("moved"))
    store.directory.symlink_to(moved)

    with pytest.raises(ConfigurationError, match="with mode 0700"):
        use(store)


def test_a_directory_below_one_that_others_can_change_is_refused(store: ArchiveStore) -> None:
    """Another user could exchange the directory between the check and the start of the JVM."""
    make(store)
    store.directory.parent.chmod(0o777)

    with pytest.raises(ConfigurationError, match=r"others can change .* home_root"):
        use(store)


def test_a_training_refuses_a_directory_that_others_can_change(store: ArchiveStore) -> None:
    store.directory.parent.chmod(0o777)

    with pytest.raises(ConfigurationError, match="others can change"), store.training():
        pass


def test_an_archive_is_no_longer_writable(store: ArchiveStore) -> None:
    assert make(store).stat().st_mode & 0o777 == 0o400


def test_two_trainings_of_a_host_exclude_each_other(store: ArchiveStore) -> None:
    with store.training() as first, store.training() as second:
        assert first is not None
        assert second is None


def test_a_training_removes_the_file_of_a_killed_one(store: ArchiveStore) -> None:
    with store.training() as made:
        assert made is not None
        left = made.with_name(made.name.replace(made.name.split(".")[-2], "killed"))
    left.write_bytes(b"half")

    with store.training():
        pass

    assert not left.exists()


def test_a_training_leaves_the_file_of_another_host_whose_name_begins_with_its_own(
    store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "worker.rack")
    with store.training() as other:
        assert other is not None
        other.write_bytes(b"half")
        monkeypatch.setattr(socket, "gethostname", lambda: "worker")

        with store.training() as own:
            assert own is not None

        assert other.exists()


def test_of_two_archives_with_one_key_the_first_one_stays(store: ArchiveStore) -> None:
    """A driver of another host may map it."""
    first = make(store).stat().st_ino

    make(store)

    assert use(store).stat().st_ino == first


def test_a_training_that_failed_leaves_no_file_and_is_not_repeated_for_a_day(
    store: ArchiveStore, clock: SetClock
) -> None:
    with store.training() as made:
        assert made is not None
        made.write_bytes(b"half")
        store.set_aside(KEY, "the disk is full")

    failed = store.failure(KEY)
    clock.moment = NOON + AGAIN + timedelta(seconds=1)

    assert failed is not None
    assert failed.reason == "the disk is full"
    assert store.failure(KEY) is None
    assert not list(store.directory.glob("*.tmp"))


def test_an_archive_that_is_set_aside_is_gone_and_its_reason_is_known(store: ArchiveStore) -> None:
    path = make(store)

    store.set_aside(KEY, "a JVM with it was ended by signal 7")

    assert not path.exists()
    assert store.find(KEY) is None
    assert (failed := store.failure(KEY)) is not None
    assert "signal 7" in failed.reason


def test_a_new_archive_forgets_an_earlier_failure(store: ArchiveStore) -> None:
    make(store)
    store.set_aside(KEY, "the disk was full")

    make(store)

    assert store.failure(KEY) is None


def test_an_archive_that_no_driver_has_used_for_a_month_is_removed(store: ArchiveStore, clock: SetClock) -> None:
    for key in ("old", "new"):
        make(store, key)
    long_ago = (NOON - UNUSED - timedelta(days=1)).timestamp()
    os.utime(store.directory / "old.json", (long_ago, long_ago))
    os.utime(store.directory / "new.json", (NOON.timestamp(), NOON.timestamp()))

    assert store.expire() == ["old"]
    assert [found.note.key for found in store.archives()] == ["new"]


def test_removal_is_idempotent(store: ArchiveStore) -> None:
    make(store)

    store.remove(KEY)
    store.remove(KEY)

    assert store.keys() == []
