"""A Delta or an Iceberg table that is read: whether it still has what comes after the offset of a cut."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalQueries, look_at_sources
from airflow_provider_ha.checkpoints.restore.plan import judge_sources
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sinks.table_sinks import LOG, METADATA
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree


ID = "320444f8-a70b-4321-9e81-6ffd2c568da3"
OTHER = "00000000-a70b-4321-9e81-6ffd2c568da3"


def delta(version: int, index: int = -1, *, whole: bool = False, table_id: str = ID) -> dict[str, Any]:
    """Return an offset as Delta 4.4 writes it."""
    return {
        "sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": version, "index": index,
        "isStartingVersion": whole,
    }  # fmt: skip


def iceberg(snapshot: int) -> dict[str, Any]:
    """Return an offset as Iceberg 1.12 writes it."""
    return {"version": 1, "snapshot_id": snapshot, "position": 1, "scan_all_files": False}


def delta_table(place: Path, versions: Iterable[int], *, table_id: str = ID, named_in: int | None = None) -> Path:
    """Make the log of a table with some versions; the id is said by one of them, as by its first commit."""
    (place / LOG).mkdir(parents=True, exist_ok=True)
    known = sorted(versions)
    for version in known:
        actions: list[dict[str, Any]] = [{"commitInfo": {}}]
        if version == (known[0] if named_in is None else named_in):
            actions.append({"metaData": {"id": table_id}})
        lines = "\n".join(map(json.dumps, actions))
        (place / LOG / f"{version:020d}.json").write_text(lines, encoding="utf-8")
    return place


def iceberg_table(
    place: Path, chain: Iterable[int], *, without: Iterable[int] = (), current: int | None = None
) -> Path:
    """Make the metadata of a table with a chain of snapshots, of which some have expired."""
    (place / METADATA).mkdir(parents=True, exist_ok=True)
    known = list(chain)
    gone = set(without)
    snapshots = [
        {"snapshot-id": each, "parent-snapshot-id": known[at - 1] if at else None}
        for at, each in enumerate(known)
        if each not in gone
    ]
    document = {"current-snapshot-id": known[-1] if current is None else current, "snapshots": snapshots}
    (place / METADATA / "v7.metadata.json").write_text(json.dumps(document), encoding="utf-8")
    return place


def judged(
    place: Path | None, cut: object, replay: object | None = None, *, begins: bool = False
) -> tuple[RestoreFindings, Any]:
    """Judge a cut of a query that reads one table.

    :param place: Where the driver has noted the table; ``None`` for nowhere.
    :param replay: Offset of a batch that is executed again.
    :param begins: Whether that is the first batch: then there is no cut.
    """

    def entry(batch: int, offset: object) -> BatchEntry:
        return BatchEntry(batch=batch, offsets=f"v1\n{{}}\n{json.dumps(offset)}")

    sources = QuerySources(tables={} if place is None else {"0": str(place)})
    own = None if begins else entry(4, cut)
    again = () if replay is None else (entry(0 if begins else 5, replay),)
    entries = [*([own] if own else []), *again]
    at = QueryCut(batch=-1 if begins else 4, sink=QuerySink(kind=SinkKind.OTHER), sources=sources)
    around = look_at_sources(
        "q", LocalTree(Path("/nowhere")), cut=at, entries=entries, external=ExternalQueries(lambda *_: {})
    )
    judgement = RestoreFindings("q")
    for each in around.unknown:
        judgement.add_unknown(each.reason)
    return judgement, judge_sources(sources, around, own, again, judgement)


def lost(judgement: RestoreFindings) -> str:
    """Return the reason of the one loss that is known."""
    (finding,) = judgement.findings
    assert (finding.verdict, judgement.unknown) == (Verdict.LOSS_POSSIBLE, [])
    return finding.reason


@pytest.mark.parametrize(
    ("offset", "replay"),
    [
        (delta(3), None),  # the version that comes next is not written yet
        (delta(2), None),
        (delta(2, 0), None),  # a part of version 2 was read
        (delta(1), delta(3)),
        (delta(0, 5, whole=True), None),
    ],
)
def test_a_delta_table_with_every_version_from_the_cut_is_whole(tmp_path: Path, offset: object, replay: object) -> None:
    judgement, _ = judged(delta_table(tmp_path, range(3)), offset, replay)

    assert judgement.findings == []


@pytest.mark.parametrize("offset", [delta(1), delta(1, 0), delta(0)])
def test_a_version_that_was_removed_from_the_log_is_lost(tmp_path: Path, offset: object) -> None:
    judgement, _ = judged(delta_table(tmp_path, (2, 3)), offset)

    assert "was removed from its log" in lost(judgement)


def test_versions_before_the_cut_may_be_removed(tmp_path: Path) -> None:
    assert judged(delta_table(tmp_path, (2, 3)), delta(2))[0].findings == []


@pytest.mark.parametrize(
    ("offset", "replay"), [(delta(9), None), (delta(4), None), (delta(3, 0), None), (delta(1), delta(4))]
)
def test_a_delta_table_that_ends_before_what_was_read_is_lost(tmp_path: Path, offset: object, replay: object) -> None:
    judgement, _ = judged(delta_table(tmp_path, range(3)), offset, replay)

    assert "ends at version 2" in lost(judgement)


def test_a_delta_table_of_another_id_is_another_table_however_long_it_is(tmp_path: Path) -> None:
    judgement, _ = judged(delta_table(tmp_path, range(9), table_id=OTHER), delta(2))

    assert "was recreated" in lost(judgement)


def test_a_table_that_is_being_read_as_a_whole_has_to_be_built_from_its_log(tmp_path: Path) -> None:
    judgement, _ = judged(delta_table(tmp_path, (1, 2, 3)), delta(2, 5, whole=True))

    assert "can no longer be read at version 2" in lost(judgement)


def test_the_first_batch_in_flight_needs_the_table_that_it_begins_with(tmp_path: Path) -> None:
    whole = judged(delta_table(tmp_path / "a", (0, 1)), None, delta(1), begins=True)[0]
    cut = judged(delta_table(tmp_path / "b", (1, 2)), None, delta(2), begins=True)[0]

    assert whole.findings == []
    assert "can no longer be read at version 1" in lost(cut)


@pytest.mark.parametrize(("offset", "replay"), [(iceberg(30), None), (iceberg(10), None), (iceberg(10), iceberg(20))])
def test_an_iceberg_table_that_comes_from_the_cut_is_whole(tmp_path: Path, offset: object, replay: object) -> None:
    judgement, _ = judged(iceberg_table(tmp_path, (10, 20, 30)), offset, replay)

    assert judgement.findings == []


@pytest.mark.parametrize(
    ("offset", "replay"),
    [(iceberg(10), None), (iceberg(10), iceberg(20)), (iceberg(77), None), (iceberg(20), iceberg(77))],
    ids=["expired", "expired with a replay", "of another table", "set back"],
)
def test_a_snapshot_that_the_table_does_not_come_from_is_lost(tmp_path: Path, offset: object, replay: object) -> None:
    judgement, _ = judged(iceberg_table(tmp_path, (10, 20, 30), without=(10,)), offset, replay)

    assert "does not come from snapshot" in lost(judgement)


def test_a_snapshot_that_was_undone_is_lost_though_it_is_there(tmp_path: Path) -> None:
    judgement, _ = judged(iceberg_table(tmp_path, (10, 20, 30), current=20), iceberg(30))

    assert "does not come from snapshot 30" in lost(judgement)


def test_a_gap_between_the_cut_and_the_current_snapshot_is_lost(tmp_path: Path) -> None:
    judgement, _ = judged(iceberg_table(tmp_path, (10, 20, 30), without=(20,)), iceberg(10))

    assert "does not come from snapshot 10" in lost(judgement)


def test_a_cut_before_the_first_snapshot_needs_them_all(tmp_path: Path) -> None:
    whole = judged(iceberg_table(tmp_path / "a", (10, 20)), iceberg(-1))[0]
    cut = judged(iceberg_table(tmp_path / "b", (10, 20), without=(10,)), iceberg(-1))[0]

    assert whole.findings == []
    assert "snapshot 10" in lost(cut)


@pytest.mark.parametrize(("kind", "offset"), [("Delta", delta(1)), ("Iceberg", iceberg(10))])
def test_a_table_that_is_gone_is_lost(tmp_path: Path, kind: str, offset: object) -> None:
    judgement, _ = judged(tmp_path / "nothing", offset)

    assert f"{kind} table {tmp_path}/nothing is gone" in lost(judgement)


@pytest.mark.parametrize("offset", [delta(1), iceberg(10)], ids=["delta", "iceberg"])
@pytest.mark.parametrize("replay", [True, False])
def test_a_table_whose_place_is_not_recorded_is_unknown(offset: object, replay: bool) -> None:
    judgement, (source,) = judged(None, offset, offset if replay else None)

    assert "source 0" in judgement.unknown[0]
    assert (source.unit, source.gone) == (None, None)


def test_a_delta_table_that_does_not_say_its_id_is_unknown(tmp_path: Path) -> None:
    judgement, _ = judged(delta_table(tmp_path, (4, 5), named_in=-1), delta(5))

    assert "Delta table" in judgement.unknown[0]


def test_an_iceberg_table_whose_catalog_knows_its_state_is_unknown(tmp_path: Path) -> None:
    (tmp_path / METADATA).mkdir()
    (tmp_path / METADATA / "00001-5b7e4a3c-0000-0000-0000-000000000000.metadata.json").write_text("{}")

    judgement, _ = judged(tmp_path, iceberg(10))

    assert "only its catalog knows" in judgement.unknown[0]
