"""Reports of restores of state: final at the first commit, also for the supervisor, and never an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver.jvm.state_restores import CopyCost, StateRestoreReports, why_off
from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, PROVIDER, ROCKSDB
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.runs.submissions import StateRestore


HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PLACE = "has3a://bucket/jobs/j/live/e2-x/totals"


@dataclass
class Jvm:
    """What the JVM says of the reads of a query."""

    said: str = "0 0 0 0 0 0"
    refused: str = ""
    gone: bool = False
    notes: list[dict[str, StateRestore]] = field(default_factory=list)
    expected: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def io(self) -> Any:
        reads = SimpleNamespace(of=self.of, refusals=lambda: self.refused, made=self.made)
        placement = SimpleNamespace(expect=lambda *expected: self.expected.append(expected))
        classes = SimpleNamespace(StateReads=reads, StatePlacement=placement)
        return SimpleNamespace(github=SimpleNamespace(sparkha=classes))

    def of(self, place: str) -> str:
        if self.gone:
            raise ConnectionError("the JVM is gone")
        return self.said if place == PLACE else "0 0 0 0 0 0"

    def made(self) -> str:
        if self.gone:
            raise ConnectionError("the JVM is gone")
        return "2048 1500000"

    def reports(self, provider: str = ROCKSDB, state_format: str = "2") -> StateRestoreReports:
        def note(restores: Mapping[str, StateRestore]) -> None:
            self.notes.append(dict(restores))

        found = StateRestoreReports(self, note)
        conf = {PROVIDER: provider, FORMAT_VERSION: state_format, "spark.sql.shuffle.partitions": "4"}
        session = SimpleNamespace(conf=conf, _jsparkSession=SimpleNamespace(streams=lambda: "manager"))
        found.begin("totals", PLACE, session)
        return found


@pytest.mark.parametrize(
    ("provider", "state_format", "reason"),
    [
        (ROCKSDB, "2", ""),
        (ROCKSDB, "1", "its state has names that change (RocksDB, format 1)"),
        (ROCKSDB, None, "its state has names that change (RocksDB, format 1)"),
        (HDFS_BACKED, "1", "its state has names that change (HDFSBackedStateStoreProvider, format 1)"),
    ],
)
def test_only_names_that_are_never_written_twice_have_copies(
    provider: str, state_format: str | None, reason: str
) -> None:
    assert why_off(provider, state_format) == reason


def test_the_report_is_final_at_the_first_commit() -> None:
    jvm = Jvm("2 1000 0 0 0 0")
    reports = jvm.reports()
    first = reports.figures("totals", committed=False)
    jvm.said = "8 34500000 1 300000 1250000 4"
    final = reports.figures("totals", committed=True)
    jvm.said = "9 9 9 9 9 9"

    expected = StateRestore(
        copy_files=8, copy_bytes=34_500_000, store_files=1, store_bytes=300_000, seconds=1.25, placed=4
    )
    assert first["state_restore"].copy_files == 2
    assert final["state_restore"] == reports.figures("totals", committed=True)["state_restore"] == expected
    assert jvm.notes == [{"totals": expected}]
    read = "8 files (34.5 MB) from copies, 1 file (0.3 MB) from the store, 1.2 s"
    assert expected.sentence == f"{read}, 4 partitions placed where their copies are"


@pytest.mark.parametrize(("state_format", "expected"), [("2", [("manager", "totals", PLACE, 4)]), ("1", [])])
def test_tasks_are_placed_only_where_copies_are_kept(state_format: str, expected: list[tuple[Any, ...]]) -> None:
    jvm = Jvm()

    jvm.reports(state_format=state_format)

    assert jvm.expected == expected


def test_a_query_that_was_not_started_has_no_report() -> None:
    assert Jvm().reports().figures("others", committed=True) == {}


def test_a_jvm_that_is_gone_has_no_report() -> None:
    jvm = Jvm(gone=True)

    assert jvm.reports().figures("totals", committed=True) == {}
    assert jvm.notes == []


def test_a_directory_that_is_refused_is_named() -> None:
    jvm = Jvm(refused="the directory of copies /x is refused: it belongs to another user")

    report = jvm.reports().figures("totals", committed=True)["state_restore"]

    assert report.sentence.endswith("0.0 s; off: the directory of copies /x is refused: it belongs to another user")


def test_the_supervisor_reads_what_the_driver_has_noted(tmp_path: Path) -> None:
    home, restore = DriverHome(tmp_path), StateRestore(copy_files=8, off="")
    before = home.read_state_restores()

    DriverSpec.note_state_restores(SimpleNamespace(home=home), {"totals": restore})  # type: ignore[arg-type]  # of a spec it needs the home

    assert (before, home.read_state_restores()) == ({}, {"totals": restore})


def test_a_damaged_note_is_no_report(tmp_path: Path) -> None:
    home = DriverHome(tmp_path)
    home.state_restores.write_text('{"queries": {"totals": ')

    assert home.read_state_restores() == {}


def test_the_cost_of_copies_is_that_of_all_executors() -> None:
    assert Jvm().reports().copies() == CopyCost(size=2048, seconds=1.5)


def test_the_cost_of_copies_is_not_known_when_the_jvm_is_gone() -> None:
    assert Jvm(gone=True).reports().copies() is None
