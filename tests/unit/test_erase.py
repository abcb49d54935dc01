"""What an erase takes for older than itself, in a store whose clock counts in seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_provider_ha.control.erase import _beginning
from airflow_provider_ha.storage.local import LocalStore
from airflow_provider_ha.storage.store import ObjectInfo


class CoarseStore(LocalStore):
    """A file system that tells times as S3 does: in whole seconds."""

    def info(self, key: str) -> ObjectInfo | None:
        found = super().info(key)
        return None if found is None else replace(found, modified=found.modified.replace(microsecond=0))


def test_what_was_written_in_the_same_second_is_older_than_the_beginning(tmp_path: Path) -> None:
    store = CoarseStore(tmp_path / "store")
    store.write("before", b"")

    moment = _beginning(store)

    store.write("after", b"")
    before, after = store.info("before"), store.info("after")
    assert before is not None
    assert after is not None
    assert before.modified < moment <= after.modified
    assert sorted(found.key for found in store.list("")) == ["after", "before"], "no probe is left"
