"""Archives become savepoints on S3: what was exported comes back, and nothing of what an enemy made arrives there."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_prefix
from airflow_provider_ha.checkpoints.store.savepoints.archive import export
from airflow_provider_ha.checkpoints.store.savepoints.creation import take as take_directory
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import DirectoryLayout, read_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import (
    SavepointPrefix,
    import_archive,
    open_savepoint,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import check
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import fetch
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ObjectExistsError,
    StorageUnavailableError,
)
from tests.support.checkpoints.portable_helpers import (
    QUERY,
    archive,
    checkpoint,
    member,
    members_of,
    names_in,
    savepoint,
)
from tests.support.s3.s3_checkpoints import put_directory, tree
from tests.support.s3.s3_faults import Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.s3.savepoints import attempts_of, call, keys_of, place_of, restore, take
from tests.unit.checkpoints.test_portable_relocation import SCHEMA, stateful


# The checks of an archive are those of every import, which the quick tests hold on directories.
pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
Made = tuple[Path, Savepoint]


@pytest.fixture
def one(s3: S3Access, bucket: str) -> SavepointPrefix:
    return place_of(s3, bucket)


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


def exported(at: SavepointPrefix, place: Path) -> bytes:
    """Return the archive of a savepoint on S3."""
    export(place, fetch(open_savepoint(at), place), place.with_suffix(".tar"))
    return place.with_suffix(".tar").read_bytes()


def test_what_was_exported_comes_back_and_becomes_the_same_archive_again(
    s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path
) -> None:
    put_directory(s3, bucket, "c", checkpoint(tmp_path / QUERY))
    take(one, [SavepointSource(query=QUERY, directory=f"s3://{bucket}/c")], label="a word")
    first = exported(one, tmp_path / "first")
    again = place_of(s3, s3.new_bucket(), "again")

    back = import_archive(again, tmp_path / "first.tar")

    assert back == open_savepoint(again).savepoint
    assert back.cut == {QUERY: 2}
    assert exported(again, tmp_path / "second") == first
    restore(s3, again, "restored")
    assert verify(tree(s3, again.bucket, f"restored/{QUERY}"), depth="full").restorable[-1] == 2


def test_what_names_its_job_still_does_when_it_is_exported_again(
    one: SavepointPrefix, made: Made, tmp_path: Path
) -> None:
    directory, manifest = made
    of_job = manifest.model_copy(update={"job_id": "orders", "run": 3, "epoch": 7, "graph": "ab" * 32})
    (directory / "manifest.json").write_bytes(of_job.to_bytes())
    export(directory, of_job, tmp_path / "job.tar")

    import_archive(one, tmp_path / "job.tar")

    assert fetch(open_savepoint(one), tmp_path / "back") == of_job
    assert read_savepoint(tmp_path / "back").savepoint == of_job


def test_a_large_file_is_uploaded_in_parts(one: SavepointPrefix, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(savepoint_prefix, "_WHOLE", 60)

    made = import_archive(one, packed)

    assert max(file.size for file in made.files.values()) > 60
    check(open_savepoint(one))


def test_changed_bytes_of_an_imported_file_are_found_by_its_digest(one: SavepointPrefix, packed: Path) -> None:
    """Even if the etag of the manifest was changed with them."""
    import_archive(one, packed)
    stored = open_savepoint(one)
    key = f"{one.key}/{stored.place.name}/{QUERY}/commits/2"
    one.files.write(key, one.files.read(key).replace(b"0", b"7"))
    changed = open_savepoint(one)
    etag = changed.place.listed(f"{QUERY}/commits/2").etag
    files = dict(changed.savepoint.files)
    files[f"{QUERY}/commits/2"] = files[f"{QUERY}/commits/2"].model_copy(update={"etag": etag})
    manifest = changed.savepoint.model_copy(update={"files": files, "directory": stored.place.name})
    one.files.write(one.manifest, manifest.to_bytes())

    with pytest.raises(CheckpointCorruptError, match="digest"):
        fetch(open_savepoint(one), packed.parent / "back")


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
    kind: str, one: SavepointPrefix, made: Made, tmp_path: Path
) -> None:
    (tmp_path / "mail").mkdir()
    path = enemy_archive(kind, made, tmp_path / "mail")

    with pytest.raises(CheckpointCorruptError):
        import_archive(one, path)

    assert keys_of(one) == []
    assert names_in(tmp_path / "mail") == ["enemy.tar"]


@pytest.mark.parametrize("step", ["/files-", "one/manifest.json"])
def test_an_import_that_ends_at_any_step_is_no_savepoint(
    step: str, s3: S3Access, bucket: str, one: SavepointPrefix, packed: Path
) -> None:
    fault = Fault(refuse(403, "AccessDenied"), "PUT", step, after=2 if step == "/files-" else 0)
    with s3_proxy(s3.endpoint, fault) as endpoint, pytest.raises(StorageUnavailableError):
        import_archive(place_of(s3, bucket, endpoint=endpoint), packed)

    assert fault.hits == 1
    assert names_in(packed.parent) == [packed.name]
    with pytest.raises(CheckpointMissingError):
        open_savepoint(one)


def test_a_name_that_is_taken_is_refused_and_the_savepoint_stays(one: SavepointPrefix, packed: Path) -> None:
    first = import_archive(one, packed)

    with pytest.raises(ObjectExistsError, match="already exists"):
        import_archive(one, packed.with_name("not-read.tar"))

    assert open_savepoint(one).savepoint == first


def test_an_uploaded_file_that_is_gone_is_noticed_before_the_manifest(
    s3: S3Access, bucket: str, one: SavepointPrefix, packed: Path
) -> None:
    def forget(exchange: Exchange) -> None:
        one.files.delete(f"{one.key}/{keys_of(one)[0]}")
        exchange.forward()

    with (
        s3_proxy(s3.endpoint, Fault(forget, "GET", "files-")) as endpoint,
        pytest.raises(CheckpointCorruptError, match="not there"),
    ):
        import_archive(place_of(s3, bucket, endpoint=endpoint), packed)

    assert attempts_of(one) == set()


def test_the_archive_is_unpacked_where_it_is_said_and_nothing_stays_there(
    s3: S3Access, one: SavepointPrefix, packed: Path, tmp_path: Path
) -> None:
    with pytest.raises(StorageUnavailableError, match="nowhere"):
        import_archive(one, packed, scratch=tmp_path / "nowhere")
    (tmp_path / "roomy").mkdir()

    call(s3, "savepoint", "import", str(packed), "--to", str(one), "--scratch", str(tmp_path / "roomy"))

    assert names_in(tmp_path / "roomy") == []
    check(open_savepoint(one))


def test_schema_paths_of_an_imported_savepoint_are_rewritten_and_no_old_checksum_is_left(
    s3: S3Access, bucket: str, one: SavepointPrefix, tmp_path: Path
) -> None:
    live = stateful(tmp_path / "live" / QUERY)
    manifest = take_directory([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(tmp_path / "sp"))
    export(tmp_path / "sp", manifest, tmp_path / "sp.tar")
    made = import_archive(one, tmp_path / "sp.tar")

    restore(s3, one, "new")

    place = f"new/{QUERY}/state/0/_metadata/v2"
    assert tree(s3, bucket, place).names() == ["0"]
    assert f"s3a://{bucket}/new/{QUERY}/{SCHEMA}" in tree(s3, bucket, place).read("0").decode()
    assert open_savepoint(one).savepoint == made
