"""How much input a restore reads again, from the recorded boundaries."""

from __future__ import annotations

import json

from airflow_provider_ha.checkpoints.model import BatchEntry, SourceInput
from airflow_provider_ha.checkpoints.restore.inputs import inputs_of


def entry(batch: int, *offsets: object, version: int = 1, files: dict[str, int] | None = None) -> BatchEntry:
    lines = [offset if isinstance(offset, str) else json.dumps(offset) for offset in offsets]
    sources = {name: ("a line",) * count for name, count in (files or {}).items()}
    return BatchEntry(batch=batch, offsets="\n".join([f"v{version}", "{}", *lines]), sources=sources)


def test_files_are_counted_per_source() -> None:
    replay = [
        entry(5, {"logOffset": 3}, {"logOffset": 8}, files={"0": 2}),
        entry(6, {"logOffset": 4}, {"logOffset": 9}, files={"0": 1, "1": 4}),
    ]

    assert inputs_of(entry(4, {"logOffset": 2}, {"logOffset": 8}), replay) == (
        SourceInput(source="0", unit="files", amount=3),
        SourceInput(source="1", unit="files", amount=4),
    )


def test_rows_of_kafka_are_what_was_read_since_the_cut() -> None:
    cut = entry(4, {"orders": {"0": 100, "1": 50}})
    replay = [entry(5, {"orders": {"0": 110, "1": 50}}), entry(6, {"orders": {"0": 125, "1": 60, "2": 7}})]

    assert inputs_of(cut, replay) == (SourceInput(source="0", unit="rows", amount=25 + 10 + 7),)


def test_named_sources_are_told_apart_by_their_names() -> None:
    cut = entry(4, 'b:{"t": {"0": 5}}', 'a:{"t": {"0": 1}}', version=2)
    replay = [entry(5, 'a:{"t": {"0": 3}}', 'b:{"t": {"0": 6}}', version=2)]

    assert inputs_of(cut, replay) == (
        SourceInput(source="a", unit="rows", amount=2),
        SourceInput(source="b", unit="rows", amount=1),
    )


def test_what_only_the_source_understands_has_no_figure() -> None:
    replay = [entry(5, 17, {"position": {"file": "x"}}, "-")]

    assert inputs_of(None, replay) == (SourceInput(source="0"), SourceInput(source="1"), SourceInput(source="2"))


def test_without_a_replay_nothing_is_read_again() -> None:
    assert inputs_of(entry(4, {"logOffset": 2}), []) == ()


def test_a_record_that_cannot_be_read_has_no_figure() -> None:
    assert inputs_of(None, [BatchEntry(batch=5, offsets="garbage")]) == ()
