"""The one place where a key out of a record becomes a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.errors import RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.storage.keys import resolve_key


INSIDE = ("jobs/flights/live/", "jobs/flights/savepoints/")


def resolve(root: Path, key: str) -> Path:
    return resolve_key(root, key, inside=INSIDE, source="znode /a")


@pytest.mark.parametrize("key", ["jobs/flights/live/e1-x", "jobs/flights/savepoints/nightly"])
def test_a_key_of_one_of_the_prefixes_is_a_path_whether_it_exists_or_not(tmp_path: Path, key: str) -> None:
    assert resolve(tmp_path, key) == tmp_path / key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/etc",
        "..",
        "jobs/flights/live/",
        "jobs/flights/live",
        "jobs/flights/live/..",
        "jobs/flights/live/../x",
        "jobs/flights/live/e1-x/q",
        "jobs/flights/live//etc",
        "jobs/flights/checkpoints/pins/1",
        "jobs/flight/live/e1-x",
        "jobs/flights2/live/e1-x",
        "jobs/flights/live/\x00",
        "jobs/flights/live/a\nb",
    ],
)
def test_a_key_names_one_thing_of_its_prefix(tmp_path: Path, key: str) -> None:
    with pytest.raises(RecordCorruptError, match="znode /a is refused") as caught:
        resolve(tmp_path, key)

    assert caught.value.next_step


@pytest.mark.parametrize("link", ["jobs", "jobs/flights", "jobs/flights/live", "jobs/flights/live/e1-x"])
def test_no_link_below_the_root_is_followed(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)

    with pytest.raises(RecordCorruptError, match="symbolic link"):
        resolve(root, "jobs/flights/live/e1-x")


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(tmp_path / "disk")

    assert resolve(tmp_path / "root", "jobs/flights/live/e1-x") == tmp_path / "root/jobs/flights/live/e1-x"


def test_a_way_that_cannot_be_looked_at_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "jobs/flights/live").mkdir(parents=True)

    with pytest.raises(StorageUnavailableError, match="could not be inspected"):
        resolve(tmp_path, f"jobs/flights/live/{'x' * 300}")
