"""What an older release wrote stays readable, and what a newer one wrote is refused in so many words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.host.this_host import LocalProcess
from airflow_provider_ha.jobs.model import JobGraph, Target
from airflow_provider_ha.jobs.submissions import SubmissionStarted
from airflow_provider_ha.records import Record, checksum
from tests.support.clusters.record_samples import CORPUS, record_types


TYPES = record_types()
FILES = sorted(CORPUS.glob("*.json"))
CONVERTED = {"journal-started", "submission-started"}  # the fields of a local process have become its handle
# The master has become a part of the target; an algorithm of a store is one of those that stores have.
RESHAPED = CONVERTED | {"job-graph", "pooled-savepoint"}


def test_every_kind_of_record_is_in_the_corpus() -> None:
    """A new kind gets its sample with ``python -m tests.support.clusters.record_samples``."""
    assert {path.stem for path in FILES} == set(TYPES)


@pytest.mark.parametrize("path", [path for path in FILES if path.stem not in RESHAPED], ids=lambda path: path.stem)
def test_a_record_of_version_1_is_read_with_everything_that_it_says(path: Any) -> None:
    """Fails when a field is renamed or removed, or when a new one has no default."""
    written = json.loads(path.read_bytes())

    record = TYPES[path.stem].from_bytes(path.read_bytes(), source=path.name)

    assert contains(record.model_dump(mode="json"), written["body"])


def test_a_start_of_version_1_is_read_as_the_handle_of_a_local_process() -> None:
    body = {"host": "worker-1", "pid": 12, "process_started": 1.5, "log": "/a b/driver.log", "boot": "id", "uid": 7}
    envelope = {"kind": "submission-started", "version": 1, "checksum": checksum(body), "body": body}

    handle = SubmissionStarted.from_bytes(json.dumps(envelope).encode(), source="znode /a").handle

    assert handle.engine == "local"
    assert (handle.log_host, handle.log_path) == ("worker-1", "/a b/driver.log")
    local = LocalProcess(host="worker-1", pid=12, process_started=1.5, boot="id", uid=7)
    assert LocalProcess.of(handle) == local


def test_a_graph_of_version_1_is_read_with_its_master_as_a_target_of_this_host() -> None:
    data = (CORPUS / "job-graph.json").read_bytes()
    body = json.loads(data)["body"]

    graph = JobGraph.from_bytes(data, source="job-graph")

    assert graph.target == Target(engine="local", master=body.pop("master"), deploy_mode="client")
    assert contains(graph.model_dump(mode="json"), body)


def test_a_pooled_savepoint_of_version_1_is_read_as_a_savepoint_whose_files_lie_in_a_pool() -> None:
    data = (CORPUS / "pooled-savepoint.json").read_bytes()
    body = json.loads(data)["body"]
    files = body.pop("files")

    savepoint = Savepoint.from_bytes(data, source="pooled-savepoint")

    assert contains(savepoint.model_dump(mode="json"), body)
    assert {name: (file.size, file.member, file.etag) for name, file in savepoint.files.items()} == {
        name: (file["size"], file["member"], file["etag"]) for name, file in files.items()
    }
    assert json.loads(savepoint.to_bytes())["version"] == 3


@pytest.mark.parametrize(
    ("algorithm", "read_as"),
    [("SHA256", Algorithm.SHA256), ("CRC64NVME", Algorithm.CRC64NVME), ("", None), ("of another store", None)],
)
def test_the_checksum_of_a_pooled_file_of_version_1_is_read(algorithm: str, read_as: Algorithm | None) -> None:
    file = ManifestFile.model_validate({"size": 1, "member": "ab/abc-1", "etag": "e", "algorithm": algorithm})

    assert file.digested_by is read_as


@pytest.mark.parametrize("kind", sorted(CONVERTED))
def test_a_start_in_the_corpus_is_read(kind: str) -> None:
    data = (CORPUS / f"{kind}.json").read_bytes()

    record = TYPES[kind].from_bytes(data, source=kind)

    started = record if isinstance(record, SubmissionStarted) else record.started  # type: ignore[attr-defined]
    body = json.loads(data)["body"]
    assert LocalProcess.of(started.handle).pid == body.get("started", body)["pid"]


@pytest.mark.parametrize("record", dict.fromkeys(TYPES.values()), ids=lambda record: record.kind)
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


def contains(now: Any, then: Any) -> bool:
    """Whether everything of *then* is in *now*, which may have new fields."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and contains(now[key], value) for key, value in then.items())
    if isinstance(then, list):
        return len(now) == len(then) and all(map(contains, now, then))
    return bool(now == then)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_equal_records_have_equal_bytes_sorted_and_without_spaces(path: Any) -> None:
    """Digests of manifests are of these bytes."""
    written = TYPES[path.stem].from_bytes(path.read_bytes(), source=path.name).to_bytes()

    assert written.decode() == json.dumps(json.loads(written), sort_keys=True, separators=(",", ":"))
