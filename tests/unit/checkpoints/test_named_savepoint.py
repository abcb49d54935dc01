"""Which savepoint a word stands for, and how long its id may be. ZooKeeper is stood in for."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SavepointPointer
from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
from airflow_provider_ha.checkpoints.store.pointer_store import PointerListing
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import named_savepoint
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError, RecordCorruptError
from airflow_provider_ha.names import SAVEPOINT_ID_LIMIT, check_name, check_savepoint_id
from airflow_provider_ha.storage.keys import JobKeys


NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


class Store:
    """The savepoints of a job: id -> label; ``None`` where the pointer cannot be read."""

    job_id = "orders"

    def __init__(self, savepoints: dict[str, str | None]) -> None:
        self.savepoints = savepoints

    def pointer(self, savepoint_id: str) -> SavepointPointer:
        if check_name(savepoint_id, "savepoint id") not in self.savepoints:
            raise CheckpointMissingError("no such savepoint")
        label = self.savepoints[savepoint_id]
        if label is None:
            raise RecordCorruptError("it cannot be read")
        return SavepointPointer(
            savepoint_id=savepoint_id, directory="d", manifest_sha256="0", cut={}, created_at=NOON, label=label, size=0
        )

    def list(self) -> PointerListing[SavepointPointer]:
        readable = [name for name, label in self.savepoints.items() if label is not None]
        broken = [UnreadableRecord(name, "broken") for name, label in self.savepoints.items() if label is None]
        return PointerListing(tuple(self.pointer(name) for name in readable), tuple(broken))


def named(word: str, **savepoints: str | None) -> str:
    store: Any = Store({name.replace("_", "-"): label for name, label in savepoints.items()})
    return named_savepoint(store, word).savepoint_id


@pytest.mark.parametrize("word", ["nightly-2", "night", "n", "before the upgrade"])
def test_an_id_its_beginning_and_a_label_name_a_savepoint(word: str) -> None:
    assert named(word, nightly_2="before the upgrade", cli_1="") == "nightly-2"


def test_an_exact_id_is_never_ambiguous() -> None:
    assert named("night", night="", nightly="night") == "night"


@pytest.mark.parametrize("word", ["nightly", "TICKET-7"])
def test_what_may_be_several_is_refused_with_the_candidates(word: str) -> None:
    with pytest.raises(ConfigurationError, match="nightly-1, nightly-2") as refused:
        named(word, nightly_1="TICKET-7", nightly_2="TICKET-7", other="")

    assert "may name 2 savepoints of job 'orders'" in refused.value.message


def test_the_label_of_one_and_the_beginning_of_another_are_two() -> None:
    with pytest.raises(ConfigurationError, match="may name 2"):
        named("a", abc="", other="a")


def test_many_candidates_are_counted() -> None:
    with pytest.raises(ConfigurationError, match=r"may name 12 .*n109 and 2 more"):
        named("n", **{f"n{100 + number}": "" for number in range(12)})


@pytest.mark.parametrize("word", ["x", "no such label", "other-1"])
def test_an_unknown_savepoint_is_missing(word: str) -> None:
    with pytest.raises(CheckpointMissingError, match="job 'orders' has no savepoint") as refused:
        named(word, other="", nightly="")

    assert "spark-ha savepoint list orders" in refused.value.next_step


@pytest.mark.parametrize("word", ["", " "])
def test_an_empty_name_matches_no_savepoint(word: str) -> None:
    with pytest.raises(ConfigurationError, match="savepoint name is empty"):
        named(word, only="")


@pytest.mark.parametrize(("word", "label"), [("night", ""), ("ticket", "ticket")], ids=["beginning", "label"])
def test_a_savepoint_that_cannot_be_read_may_be_the_one_that_is_meant(word: str, label: str) -> None:
    with pytest.raises(ConfigurationError, match="nightly-1, nightly-2"):
        named(word, nightly_1=label, nightly_2=None)


def test_a_word_that_only_an_unreadable_savepoint_has_says_that_it_cannot_be_read() -> None:
    with pytest.raises(RecordCorruptError):
        named("night", nightly=None, other="")


PATHS = ClusterPaths("spark-ha", "default").job("flights")
LONGEST = "s" * SAVEPOINT_ID_LIMIT


def test_the_longest_id_has_a_node_and_a_lease() -> None:
    assert PATHS.savepoint(LONGEST).endswith(LONGEST)
    assert PATHS.leases(f"savepoint-{LONGEST}").endswith(LONGEST)


def test_a_longer_id_is_refused_wherever_it_would_be_made() -> None:
    longer = LONGEST + "s"

    for make in (check_savepoint_id, PATHS.savepoint, JobKeys("flights").savepoint):
        with pytest.raises(ConfigurationError, match="has 119 characters") as caught:
            make(longer)
        assert "at most 118 characters" in caught.value.next_step
