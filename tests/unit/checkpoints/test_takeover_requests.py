"""What a takeover asks of a store: its listings are counted, because each of them has a page per thousand files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.object_store import ObjectInfo
from tests.support.checkpoints.layered_files import FIRST, SECOND, LayeredFiles
from tests.support.checkpoints.portable_helpers import QUERY


class Listings(LocalStore):
    """Files whose listings are noted."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.prefixes: list[str] = []

    def list(self, prefix: str, *, markers: bool = False) -> Iterator[ObjectInfo]:
        self.prefixes.append(prefix)
        return super().list(prefix, markers=markers)


@pytest.fixture
def files(tmp_path: Path) -> Listings:
    LayeredFiles(tmp_path / "cluster").run(FIRST)
    return Listings(tmp_path / "cluster")


def test_a_fence_lists_nothing_but_logs(files: Listings) -> None:
    LayeredWorkArea(files).fence(FIRST)

    assert set(files.prefixes) == {f"{FIRST}/{QUERY}/offsets/", f"{FIRST}/{QUERY}/commits/"}


def test_a_recovery_lists_the_state_of_a_query_once(files: Listings) -> None:
    area = LayeredWorkArea(files)
    area.create(SECOND)

    committed = prepare_recovery(area, area.fence(FIRST), SECOND)

    assert committed == {QUERY: 2}
    whole = [prefix for prefix in files.prefixes if f"{FIRST}/{QUERY}/state/0/".startswith(prefix)]
    assert whole == [f"{FIRST}/{QUERY}/"]


def test_a_recovery_lists_nothing_after_the_state(files: Listings) -> None:
    """Where the query stands is in the same listing, and nothing moves it after the fence."""
    area = LayeredWorkArea(files)
    area.create(SECOND)

    prepare_recovery(area, area.fence(FIRST), SECOND)

    assert files.prefixes[-1] == f"{FIRST}/{QUERY}/"
