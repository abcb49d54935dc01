"""Records: what is written is read again, and what a newer release wrote is refused in so many words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.records import Record
from tests.support.clusters.record_samples import record_types, sample


TYPES = record_types()


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_a_record_is_read_as_it_was_written(kind: str) -> None:
    written = sample(TYPES[kind])

    assert TYPES[kind].from_bytes(written.to_bytes(), source=kind) == written


@pytest.mark.parametrize("record", TYPES.values(), ids=lambda record: record.kind)
def test_a_newer_version_is_refused_with_its_number_and_the_next_step(record: type[Record]) -> None:
    newer = record.format_version + 1
    envelope = {"kind": record.kind, "version": newer, "checksum": "of another rule", "body": {"new": "field"}}

    with pytest.raises(RecordCorruptError, match=rf"znode /a .*version {newer} of '{record.kind}'") as caught:
        record.from_bytes(json.dumps(envelope).encode(), source="znode /a")

    assert "Upgrade" in caught.value.next_step


@pytest.mark.parametrize("version", ["2", None, 1.5, [], True])
def test_a_version_that_is_no_number_is_a_corrupt_record(version: Any) -> None:
    record = TYPES["run"]
    envelope = {"kind": "run", "version": version, "checksum": "", "body": {}}

    with pytest.raises(RecordCorruptError, match="znode /a"):
        record.from_bytes(json.dumps(envelope).encode(), source="znode /a")


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_equal_records_have_equal_bytes_sorted_and_without_spaces(kind: str) -> None:
    """Digests of manifests are of these bytes."""
    written = sample(TYPES[kind]).to_bytes()

    assert written.decode() == json.dumps(json.loads(written), sort_keys=True, separators=(",", ":"))
