"""What damages are written in: each step does one thing, and says when there is nothing to do it to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.verdicts.steps import NothingToDamageError, Step, apply, moved


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Four batches, the newest one planned only, and state one version above what the committed one needs."""
    for log, count in (("offsets", 4), ("commits", 3), ("sources/0", 4)):
        (tmp_path / log).mkdir(parents=True)
        for batch in range(count):
            (tmp_path / log / str(batch)).write_text('v1\n{"conf":{"a":"1"}}\n{"logOffset":0}')
            (tmp_path / log / f".{batch}.crc").write_bytes(b"crc\0sum")
    store = tmp_path / "state" / "0" / "0"
    store.mkdir(parents=True)
    for name in ("3.delta", "3.delta.crc", ".3.delta.crc", "4.delta", ".4.delta.crc", "4.snapshot", "5_ab-12.zip"):
        (store / name).write_bytes(b"12345678")
    return tmp_path


def state(checkpoint: Path) -> set[str]:
    """Return the names in the store."""
    return {path.name for path in (checkpoint / "state/0/0").iterdir()}


def test_a_path_names_batches_and_versions_by_the_logs_of_the_copy(checkpoint: Path) -> None:
    apply(
        checkpoint, [Step("empty", "offsets/{L}"), Step("empty", "commits/{C-1}"), Step("empty", "state/0/0/{V}.delta")]
    )

    emptied = {
        str(path.relative_to(checkpoint))
        for path in checkpoint.rglob("*")
        if path.is_file() and not path.stat().st_size
    }
    assert emptied == {"offsets/3", "commits/1", "state/0/0/3.delta"}


def test_a_step_sees_what_the_one_before_it_has_left(checkpoint: Path) -> None:
    apply(checkpoint, [Step("remove", "commits/{C}"), Step("remove", "commits/{C}")])

    assert {path.name for path in (checkpoint / "commits").glob("[0-9]")} == {"0"}


def test_a_file_that_is_changed_loses_its_checksums(checkpoint: Path) -> None:
    apply(checkpoint, [Step("halve", "state/0/0/3.delta")])

    assert (checkpoint / "state/0/0/3.delta").read_bytes() == b"1234"
    assert not {"3.delta.crc", ".3.delta.crc"} & state(checkpoint)


def test_checksums_stay_where_the_step_says_so(checkpoint: Path) -> None:
    apply(checkpoint, [Step("flip", "state/0/0/3.delta", (0.5,), sums="keep")])

    assert (checkpoint / "state/0/0/3.delta").read_bytes() == b"1234\xca678"
    assert {"3.delta.crc", ".3.delta.crc"} <= state(checkpoint)


def test_a_step_without_a_file_is_no_damage(checkpoint: Path) -> None:
    with pytest.raises(NothingToDamageError, match="changelog"):
        apply(checkpoint, [Step("remove", "state/0/0/*.changelog")])


def test_a_conf_that_was_not_recorded_is_no_damage(checkpoint: Path) -> None:
    apply(checkpoint, [Step("set-conf", "offsets/{L}", ("a", "x"))])
    assert '{"conf":{"a":"x"}}' in (checkpoint / "offsets/3").read_text()

    with pytest.raises(NothingToDamageError):
        apply(checkpoint, [Step("set-conf", "offsets/{L}", ("b", "x"))])


def test_a_rewind_takes_a_batch_out_of_every_log(checkpoint: Path) -> None:
    apply(checkpoint, [Step("rewind", more=(2,))])

    for log in ("offsets", "commits", "sources/0"):
        assert {path.name for path in (checkpoint / log).iterdir()} == {"0", ".0.crc", "1", ".1.crc"}


def test_a_rewind_to_a_batch_counts_no_entries(checkpoint: Path) -> None:
    apply(checkpoint, [Step("remove", "offsets/{L}"), Step("rewind-to", more=(1,))])

    for log in ("offsets", "commits", "sources/0"):
        assert {path.name for path in (checkpoint / log).iterdir()} == {"0", ".0.crc", "1", ".1.crc"}


def test_a_purge_leaves_the_newest_entries_of_each_log(checkpoint: Path) -> None:
    apply(checkpoint, [Step("purge", more=(2, 1))])

    left = {log: {path.name for path in (checkpoint / log).iterdir()} for log in ("offsets", "commits")}
    assert left == {"offsets": {"2", ".2.crc", "3", ".3.crc"}, "commits": {"2", ".2.crc"}}


def test_a_copy_names_its_own_schema_files(checkpoint: Path) -> None:
    described = checkpoint / "state/0/_metadata/v2/0"
    described.parent.mkdir(parents=True)
    described.write_text('v2\n{"paths":["file:/elsewhere/checkpoint/state/0/_stateSchema/default/0_a"]}')

    moved(checkpoint)

    assert described.read_text() == f'v2\n{{"paths":["file:{checkpoint}/state/0/_stateSchema/default/0_a"]}}'


def test_only_the_named_versions_and_kinds_are_left_above_the_committed_batch(checkpoint: Path) -> None:
    apply(checkpoint, [Step("left", more=("1", "delta"))])

    assert state(checkpoint) == {"3.delta", "3.delta.crc", ".3.delta.crc", "4.delta", ".4.delta.crc"}


def test_state_that_was_never_written_cannot_be_left(checkpoint: Path) -> None:
    with pytest.raises(NothingToDamageError):
        apply(checkpoint, [Step("left", more=("2", "snapshot"))])
