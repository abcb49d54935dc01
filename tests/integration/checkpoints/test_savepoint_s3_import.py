"""Archives become savepoints on S3: what was exported comes back, and nothing of what an enemy made arrives there."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.savepoints import pool_layout as bringing
from airflow_provider_ha.checkpoints.store.savepoints.archive import export
from airflow_provider_ha.checkpoints.store.savepoints.creation import take as take_directory
from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool, PoolPlace, digest_member
from airflow_provider_ha.checkpoints.store.savepoints.pool_layout import bring
from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import SWEEP, lease, sweep
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout, read_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectExistsError, StorageUnavailableError
from tests.integration.checkpoints.test_savepoint_s3 import ME, NOW, call, members, open_pool
from tests.support.checkpoints.portable_helpers import (
    QUERY,
    archive,
    checkpoint,
    member,
    members_of,
    names_in,
    savepoint,
)
from tests.support.s3.pools import fetch, restore, take
from tests.support.s3.s3_checkpoints import noting_proxy, put_directory, tree
from tests.support.s3.s3_faults import Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.unit.checkpoints.test_portable_relocation import SCHEMA, stateful


# The checks of an archive are those of every import, which the quick tests hold on directories.
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
Made = tuple[Path, Savepoint]


@pytest.fixture
def pool(s3: S3Access, bucket: str) -> Pool:
    return open_pool(s3, bucket)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A savepoint in a directory."""
    return savepoint(tmp_path)


@pytest.fixture
def packed(made: Made, tmp_path: Path) -> Path:
    """The same as an archive, in a separate directory."""
    (tmp_path / "mail").mkdir()
    export(*made, tmp_path / "mail" / "sp.tar.zst")
    return tmp_path / "mail" / "sp.tar.zst"


def exported(pool: Pool, pooled: Savepoint, place: Path) -> bytes:
    """Return the archive of a savepoint over a pool."""
    own = fetch(pool, pooled, place, holder=ME)
    export(place, own, place.with_suffix(".tar"))
    return place.with_suffix(".tar").read_bytes()


def everything(pool: Pool) -> list[str]:
    return [item.key for item in pool.store.list("savepoints/")]


def test_what_was_exported_comes_back_and_becomes_the_same_archive_again(
    s3: S3Access, bucket: str, pool: Pool, tmp_path: Path
) -> None:
    put_directory(s3, bucket, "c", checkpoint(tmp_path / QUERY))
    taken = take(
        pool, "one", [SavepointSource(query=QUERY, directory=PoolPlace(bucket, "c/"))], holder=ME, label="a word"
    )
    first = exported(pool, taken, tmp_path / "first")
    elsewhere = open_pool(s3, s3.new_bucket())

    back = bring(elsewhere, "again", tmp_path / "first.tar", holder=ME)

    assert back == elsewhere.read("again")
    assert {query: part.batch for query, part in back.queries.items()} == {QUERY: 2}
    assert exported(elsewhere, back, tmp_path / "second") == first
    restore(elsewhere, back, PoolPlace(elsewhere.place.bucket, "restored/"), holder=ME)
    assert verify(tree(s3, elsewhere.place.bucket, f"restored/{QUERY}"), depth="full").restorable[-1] == 2


def test_what_names_its_job_still_does_when_it_is_exported_again(pool: Pool, made: Made, tmp_path: Path) -> None:
    directory, manifest = made
    of_job = manifest.model_copy(update={"job_id": "orders", "run": 3, "epoch": 7, "graph": "ab" * 32})
    (directory / "manifest.json").write_bytes(of_job.to_bytes())
    export(directory, of_job, tmp_path / "job.tar")

    pooled = bring(pool, "one", tmp_path / "job.tar", holder=ME)

    assert fetch(pool, pooled, tmp_path / "back", holder=ME) == of_job
    assert read_savepoint(tmp_path / "back").savepoint == of_job


def test_what_is_in_the_pool_under_its_digest_is_not_uploaded_again(
    s3: S3Access, bucket: str, pool: Pool, packed: Path
) -> None:
    first = bring(pool, "first", packed, holder=ME)

    with noting_proxy(s3.endpoint) as (endpoint, asked):
        second = bring(open_pool(s3, bucket, endpoint), "second", packed, holder=ME)

    assert [path for path in asked.others if "_pool/" in path] == []
    assert second.files == first.files


def test_a_member_is_never_taken_for_a_file_by_its_etag(s3: S3Access, bucket: str, pool: Pool, made: Made) -> None:
    """An etag is an MD5, and an enemy can make two files of one."""
    directory, manifest = made
    put_directory(s3, bucket, "c", directory / QUERY)
    taken = take(pool, "one", [SavepointSource(query=QUERY, directory=PoolPlace(bucket, "c/"))], holder=ME)
    export(directory, manifest, directory.with_suffix(".tar"))

    pooled = bring(pool, "two", directory.with_suffix(".tar"), holder=ME)

    assert {file.member for file in pooled.files.values()}.isdisjoint(file.member for file in taken.files.values())
    for name, file in pooled.files.items():
        assert (file.member, file.sha256) == (digest_member(file.sha256, file.size), manifest.files[name].sha256)


def test_a_large_file_goes_up_beside_its_name_first_and_leaves_nothing_there(
    pool: Pool, packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringing, "WHOLE", 60)

    pooled = bring(pool, "one", packed, holder=ME)

    assert max(file.size for file in pooled.files.values()) > 60
    assert members(pool) == {file.member for file in pooled.files.values()}


def enemy_archive(kind: str, made: Made, place: Path) -> Path:
    """Write an archive that is not what a savepoint packs."""
    directory, manifest = made
    inside = members_of(directory, manifest)
    if kind == "leads out":
        name = f"{QUERY}/../../../c/metadata"
        files = manifest.files | {name: manifest.files[f"{QUERY}/metadata"]}
        data = manifest.model_copy(update={"files": files}).to_bytes()
        inside = [(member("manifest.json", size=len(data)), data), *inside[1:], (member(name, size=2), b"v1")]
    elif kind == "link":
        inside.append((member(f"{QUERY}/offsets/9", kind=tarfile.SYMTYPE, link="/etc/passwd"), b""))
    elif kind == "more":
        inside.append((member(f"{QUERY}/offsets/9", size=2), b"v1"))
    elif kind == "other bytes":
        info, data = inside[-1]
        inside[-1] = (info, bytes(len(data)))
    else:
        inside.pop()
    return archive(place / "enemy.tar", inside)


@pytest.mark.parametrize("kind", ["leads out", "link", "more", "other bytes", "cut"])
def test_what_an_enemy_made_is_refused_before_anything_is_uploaded(
    kind: str, pool: Pool, made: Made, tmp_path: Path
) -> None:
    (tmp_path / "mail").mkdir()
    path = enemy_archive(kind, made, tmp_path / "mail")

    with pytest.raises(CheckpointCorruptError):
        bring(pool, "one", path, holder=ME)

    assert everything(pool) == []
    assert names_in(tmp_path / "mail") == ["enemy.tar"]


@pytest.mark.parametrize("step", ["_pool/", "_manifests/one.json"])
def test_an_import_that_ends_at_any_step_is_no_savepoint_and_its_remains_are_collected(
    step: str, s3: S3Access, bucket: str, pool: Pool, packed: Path
) -> None:
    fault = Fault(refuse(403, "AccessDenied"), "PUT", step, after=2 if step == "_pool/" else 0)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        bring(open_pool(s3, bucket, endpoint), "one", packed, holder=ME)

    assert fault.hits == 1
    assert pool.names() == []
    assert members(pool)
    assert names_in(packed.parent) == [packed.name]
    sweep(pool, holder=ME, grace=NOW)
    assert everything(pool) == []


def test_a_name_that_is_taken_is_refused_and_the_savepoint_stays(pool: Pool, packed: Path) -> None:
    first = bring(pool, "one", packed, holder=ME)

    with pytest.raises(ObjectExistsError, match="already exists"):
        bring(pool, "one", packed.with_name("nobody-looks.tar"), holder=ME)

    assert pool.read("one") == first


def test_nothing_is_imported_while_the_pool_is_swept(pool: Pool, packed: Path) -> None:
    with (
        lease(pool.store, pool.leases, SWEEP, holder="a sweeper"),
        pytest.raises(StorageUnavailableError, match="a sweeper is sweeping the pool"),
    ):
        bring(pool, "one", packed, holder=ME)

    assert members(pool) == set()


@pytest.mark.parametrize("listing", [1, 2], ids=["uploaded", "judged"])
def test_what_the_pool_loses_meanwhile_is_noticed_before_the_manifest(
    listing: int, s3: S3Access, bucket: str, pool: Pool, packed: Path
) -> None:
    def forget(exchange: Exchange) -> None:
        pool.store.delete(next(pool.store.list("savepoints/_pool/")).key)
        exchange.forward()

    # When the pool is listed once more, after everything was uploaded.
    fault = Fault(forget, "GET", "_pool%2F", after=listing)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(CheckpointCorruptError, match="not in the pool"):
        bring(open_pool(s3, bucket, endpoint), "one", packed, holder=ME)

    assert pool.names() == []


def test_the_archive_is_unpacked_where_it_is_said_and_nothing_stays_there(
    s3: S3Access, bucket: str, pool: Pool, packed: Path, tmp_path: Path
) -> None:
    with pytest.raises(StorageUnavailableError, match="nowhere"):
        bring(pool, "one", packed, holder=ME, scratch=tmp_path / "nowhere")
    (tmp_path / "roomy").mkdir()
    place = f"s3://{bucket}/savepoints/one"

    call(s3, "savepoint", "import", str(packed), "--to", place, "--scratch", str(tmp_path / "roomy"))

    assert (names_in(tmp_path / "roomy"), pool.names()) == ([], ["one"])


def test_schema_paths_of_an_imported_savepoint_are_rewritten_and_no_old_checksum_is_left(
    s3: S3Access, bucket: str, pool: Pool, tmp_path: Path
) -> None:
    live = stateful(tmp_path / "live" / QUERY)
    manifest = take_directory([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))
    export(tmp_path / "sp", manifest, tmp_path / "sp.tar")
    pooled = bring(pool, "one", tmp_path / "sp.tar", holder=ME)

    restore(pool, pooled, PoolPlace(bucket, "new/"), holder=ME)

    place = f"new/{QUERY}/state/0/_metadata/v2"
    assert tree(s3, bucket, place).names() == ["0"]
    assert f"s3a://{bucket}/new/{QUERY}/{SCHEMA}" in tree(s3, bucket, place).read("0").decode()
    assert pool.read("one") == pooled
