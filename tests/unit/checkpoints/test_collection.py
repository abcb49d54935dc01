"""A pass over the payloads of a job: what it archives, what it reads, and where it can be interrupted."""

from __future__ import annotations

from itertools import islice

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.restore.query_records import read_records
from airflow_provider_ha.checkpoints.store import payload_history
from airflow_provider_ha.checkpoints.store.payload_collector import RemovalBounds
from airflow_provider_ha.checkpoints.store.payload_history import chunks, parse_name
from airflow_provider_ha.errors import LeadershipLostError, StorageError, StorageUnavailableError
from tests.support.checkpoints.history_model import RecordedJob


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> RecordedJob:
    """A job with twelve checkpoints, and a savepoint of the first one; ten payloads have no pointer."""
    monkeypatch.setattr(payload_history, "MOST_PAYLOADS", 4)
    made = RecordedJob()
    for number in range(12):
        made.batch("a")
        made.checkpoint()
        if number == 0:
            made.savepoint()
    return made


def kept(job: RecordedJob) -> list[int]:
    return sorted(checkpoint.number for checkpoint in job.history.checkpoints())


def test_payloads_of_superseded_checkpoints_become_full_archives(job: RecordedJob) -> None:
    job.collect()

    names = [parse_name(name.removesuffix(".json")) for name in job.objects(job.keys.archive_heads)]
    assert [(name.first, name.last, name.count) for name in names if name] == [(1, 4, 4), (5, 8, 4)]
    assert len(job.objects(job.keys.payloads)) == 4  # two are no full archive, two have a pointer
    assert kept(job) == list(range(1, 13))


def test_large_payloads_fill_an_archive_by_their_bytes() -> None:
    half = payload_history.MOST_BYTES // 2

    assert list(chunks([half, half, 1, payload_history.MOST_BYTES, 1])) == [slice(0, 2), slice(2, 4)]
    assert list(chunks([payload_history.MOST_BYTES])) == []


def test_payloads_that_an_archive_holds_go_when_its_writer_died_before(job: RecordedJob) -> None:
    job.collect(dies_after=9)  # two objects of the first archive are written, and the first payload is being removed
    assert len(job.objects(job.keys.payloads)) > 8
    assert kept(job) == list(range(1, 13))

    job.collect()

    assert len(job.objects(job.keys.payloads)) == 4
    assert len(job.objects(job.keys.archive_heads)) == 2
    assert kept(job) == list(range(1, 13))


def test_archives_go_when_no_cut_needs_them(job: RecordedJob) -> None:
    job.collect()
    job.dispose(0)

    job.collect()

    assert (job.objects(job.keys.archives), kept(job)) == ([], [11, 12])


def test_an_archive_that_is_not_what_was_written_keeps_its_payloads(job: RecordedJob) -> None:
    """[contract 2] Fails when the payloads go before the archive has been read back."""
    read = job.store.read
    job.store.read = lambda key: b"other" if key.startswith(job.keys.archive_data) else read(key)  # type: ignore[method-assign]

    with pytest.raises(StorageError, match="differs from the written archive"):
        job.collect()

    assert len(job.objects(job.keys.payloads)) == 12


def test_a_former_leader_removes_no_file(job: RecordedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def deposed() -> None:
        raise LeadershipLostError("the lease ran out")

    monkeypatch.setattr(job.leader, "prove", deposed)

    with pytest.raises(LeadershipLostError):
        job.collect()

    assert (len(job.objects(job.keys.payloads)), job.objects(job.keys.archives)) == (12, [])


def test_a_damaged_payload_stays_and_keeps_no_other(job: RecordedJob) -> None:
    job.store.write(job.keys.payload(2, 1), b"torn")

    job.collect()
    job.dispose(0)
    job.collect()

    assert len(job.objects(job.keys.payloads)) == 3  # the damaged one, and the two that have pointers
    assert kept(job) == [11, 12]


def test_a_damaged_archive_is_left_out_and_stays(job: RecordedJob) -> None:
    job.collect()
    (first, *_) = job.objects(job.keys.archive_data)
    job.store.write(f"{job.keys.archive_data}{first}", b"torn")

    assert kept(job) == list(range(5, 13))
    job.collect()
    assert len(job.objects(job.keys.archive_heads)) == 2


def test_one_payload_that_cannot_be_read_keeps_no_other(job: RecordedJob) -> None:
    job.dispose(0)
    read = job.store.read

    def refused(key: str) -> bytes:
        if key == job.keys.payload(2, 1):
            raise StorageUnavailableError("not now")
        return read(key)

    job.store.read = refused  # type: ignore[method-assign]
    job.collect()

    assert [name[:19].lstrip("0") for name in job.objects(job.keys.payloads)] == ["2", "11", "12"]


def test_storage_that_is_away_ends_the_pass(job: RecordedJob) -> None:
    """Fails when each of a hundred thousand payloads is tried, with all its repetitions."""
    asked: list[str] = []

    def away(key: str) -> bytes:
        asked.append(key)
        raise StorageUnavailableError("not now")

    job.store.read = away  # type: ignore[method-assign]

    with pytest.raises(StorageUnavailableError):
        job.collect()

    assert len(asked) == 3


def test_data_whose_writer_died_before_its_head_goes_after_a_day(job: RecordedJob) -> None:
    job.collect(dies_after=2)
    (data,) = job.objects(job.keys.archive_data)
    assert job.objects(job.keys.archive_heads) == []
    content, written = job.store.objects[f"{job.keys.archive_data}{data}"]
    job.dispose(0)
    job.collect()
    assert job.objects(job.keys.archive_data) == [data]

    job.store.objects[f"{job.keys.archive_data}{data}"] = content, written.replace(year=2020)
    job.collect()

    assert job.objects(job.keys.archive_data) == []


def test_what_is_known_of_payloads_does_not_outlive_them(job: RecordedJob) -> None:
    """[review B9] Fails when the collector goes on remembering what is gone: 1 to 39 GB a year."""
    for _ in range(50):
        job.batch("a")
        job.checkpoint()
        job.dispose(0)
        job.collect()

    assert len(job.collection._reach) <= 2


def test_a_pass_reads_one_payload_of_an_epoch_that_is_needed(job: RecordedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """[review B3] Fails when a new driver reads every payload to find that none may go."""
    monkeypatch.setattr(payload_history, "MOST_PAYLOADS", 100)
    read, asked = job.store.read, list[str]()
    job.store.read = lambda key: asked.append(key) or read(key)  # type: ignore[func-returns-value,method-assign]

    job.collect()

    assert asked == [job.keys.payload(1, 1)]


def test_a_pass_can_be_interrupted_after_every_step(job: RecordedJob) -> None:
    job.collection.bounds = RemovalBounds(10, {"a": 0})
    steps = job.collection.steps(job.leader)  # type: ignore[arg-type]

    taken = sum(1 for _ in islice(steps, 1000))

    assert taken > 8 * 2  # each of eight payloads is read, and removed, in its own step
    assert job.leader.proofs >= 4  # before each archive, and before its payloads go


def test_what_a_later_checkpoint_records_of_a_batch_counts_in_any_order(job: RecordedJob) -> None:
    """A batch that was planned is recorded again with its commit; archives are read after newer payloads."""
    planned = job.written[5]
    cut = planned.queries["a"]
    (entry,) = cut.entries
    committed = BatchEntry(batch=entry.batch, offsets=entry.offsets, commits="v1\n{}")
    part = cut.model_copy(update={"entries": (committed,)})
    later = planned.model_copy(update={"number": 7, "queries": {"a": part}})
    chosen = job.cuts()[-1]

    for payloads in ([planned, later], [later, planned]):
        records = read_records(chosen, payloads, None)
        assert records["a"].history[entry.batch].commits == "v1\n{}"
