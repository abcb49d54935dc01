"""A savepoint as one file: packed, unpacked, and refused when it is not what a savepoint packs."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
import zstandard

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, QueryCut, QuerySink, Savepoint, SinkKind
from airflow_provider_ha.checkpoints.store.savepoints.archive import MANIFEST_BYTES, export, unpack
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    ConfigurationError,
    ObjectExistsError,
    StorageUnavailableError,
)
from tests.support.checkpoints.portable_helpers import (
    QUERY,
    all_names,
    archive,
    member,
    members_of,
    names_in,
    savepoint,
)


SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst")
Made = tuple[Path, Savepoint]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return savepoint(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def contents(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in all_names(directory) if (directory / name).is_file()}


def assert_refused(path: Path, place: Path, reason: str | None) -> None:
    """Nothing of it stays, hidden names included, and nothing appears beside the place."""
    beside = names_in(place.parent)
    with pytest.raises(CheckpointCorruptError, match=reason):
        unpack(path, place / "back")
    assert names_in(place) == []
    assert names_in(place.parent) == beside


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_packed_comes_back_byte_for_byte(made: Made, place: Path, suffix: str) -> None:
    directory, manifest = made
    packed = place.parent / f"sp{suffix}"

    size = export(directory, manifest, packed)
    back = unpack(packed, place / "back")

    assert size == packed.stat().st_size
    assert back == manifest
    assert contents(place / "back") == contents(directory)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_savepoints_become_equal_bytes(made: Made, tmp_path: Path, suffix: str) -> None:
    directory, manifest = made
    export(directory, manifest, tmp_path / f"a{suffix}")
    for path in directory.rglob("*"):
        os.utime(path, (1, 1))

    export(directory, manifest, tmp_path / f"b{suffix}")

    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_the_manifest_comes_first_and_any_tar_can_read_it(made: Made, tmp_path: Path) -> None:
    directory, manifest = made
    export(directory, manifest, tmp_path / "sp.tar.gz")

    listed = subprocess.run(["tar", "-tzf", tmp_path / "sp.tar.gz"], check=True, capture_output=True, text=True)

    assert listed.stdout.split() == ["manifest.json", *sorted(manifest.files)]


def test_only_its_owner_can_read_an_archive(made: Made, tmp_path: Path) -> None:
    export(*made, tmp_path / "sp.tar")

    assert (tmp_path / "sp.tar").stat().st_mode & 0o777 == 0o600


def test_another_suffix_is_refused(made: Made, place: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"sp\.zip"):
        export(*made, place / "sp.zip")

    assert names_in(place) == []


def test_an_existing_archive_stays_as_it_is(made: Made, place: Path) -> None:
    (place / "sp.tar").write_text("mine")

    with pytest.raises(ObjectExistsError):
        export(*made, place / "sp.tar")

    assert (place / "sp.tar").read_text() == "mine"
    assert names_in(place) == ["sp.tar"]


@pytest.mark.parametrize("data", [b"", b"v1", b"x" * 200])
def test_a_damaged_savepoint_never_becomes_an_archive(made: Made, place: Path, data: bytes) -> None:
    directory, manifest = made
    path = directory / QUERY / "offsets" / "2"
    path.write_bytes(data or bytes(path.stat().st_size))

    with pytest.raises(CheckpointCorruptError, match="offsets/2"):
        export(directory, manifest, place / "sp.tar")

    assert names_in(place) == []


def test_an_existing_directory_is_not_unpacked_into(made: Made, place: Path) -> None:
    export(*made, place.parent / "sp.tar")
    (place / "back").mkdir()

    with pytest.raises(ObjectExistsError):
        unpack(place.parent / "sp.tar", place / "back")

    assert names_in(place / "back") == []


def test_an_archive_that_is_not_there_is_not_a_bad_one(place: Path) -> None:
    with pytest.raises(StorageUnavailableError, match="absent"):
        unpack(place / "absent.tar", place / "back")


def test_a_savepoint_that_does_not_fit_is_refused_before_anything_is_written(made: Made, place: Path) -> None:
    huge = ManifestFile(size=2**60, sha256="0" * 64)
    part = made[1].queries[QUERY].model_copy(update={"files": {"metadata": huge.size}})
    manifest = made[1].model_copy(update={"files": {f"{QUERY}/metadata": huge}, "queries": {QUERY: part}})
    path = archive(
        place.parent / "huge.tar", [(member("manifest.json", size=len(manifest.to_bytes())), manifest.to_bytes())]
    )

    with pytest.raises(StorageUnavailableError, match=str(2**60)):
        unpack(path, place / "back")

    assert names_in(place) == []


# Hostile archives: what is done to the members of a good one, and the reason that is given.
Members = list[tuple[tarfile.TarInfo, bytes]]
HOSTILE: dict[str, tuple[Callable[[Members], Members], str]] = {
    "an absolute name": (lambda m: [*m, (member("/etc/cron.d/x"), b"")], "not in the manifest"),
    "a name that leads out": (lambda m: [*m, (member("../x"), b"")], "not in the manifest"),
    "a name not in the manifest": (lambda m: [*m, (member(f"{QUERY}/offsets/7"), b"")], "not in the manifest"),
    "a name twice": (lambda m: [*m, m[1]], "occurred before"),
    "the manifest twice": (lambda m: [*m, m[0]], "not in the manifest"),
    "a file that is missing": (lambda m: m[:-1], "does not hold"),
    "no manifest": (lambda m: m[1:], "does not begin"),
    "the manifest last": (lambda m: [*m[1:], m[0]], "does not begin"),
    "nothing": (lambda _: [], "does not begin"),
    "a symbolic link": (
        lambda m: [*m[:-1], (member(m[-1][0].name, kind=tarfile.SYMTYPE, link="/etc/passwd"), b"")],
        "not a plain file",
    ),
    "a hard link": (
        lambda m: [*m[:-1], (member(m[-1][0].name, kind=tarfile.LNKTYPE, link=m[1][0].name), b"")],
        "not a plain file",
    ),
    "a character device": (lambda m: [*m[:-1], (member(m[-1][0].name, kind=tarfile.CHRTYPE), b"")], "not a plain file"),
    "a pipe": (lambda m: [*m[:-1], (member(m[-1][0].name, kind=tarfile.FIFOTYPE), b"")], "not a plain file"),
    "a directory": (lambda m: [*m, (member("d", kind=tarfile.DIRTYPE), b"")], "not a plain file"),
    "a link before its victim": (
        lambda m: [m[0], (member(QUERY, kind=tarfile.SYMTYPE, link="/tmp"), b""), *m[1:]],  # noqa: S108  # never made
        "not a plain file",
    ),
    "a longer file": (
        lambda m: [*m[:-1], (member(m[-1][0].name, size=len(m[-1][1]) + 1), m[-1][1] + b"x")],
        "the manifest records",
    ),
    "a shorter file": (
        lambda m: [*m[:-1], (member(m[-1][0].name, size=len(m[-1][1]) - 1), m[-1][1][:-1])],
        "the manifest records",
    ),
    "other bytes": (
        lambda m: [*m[:-1], (m[-1][0], bytes(len(m[-1][1])))],
        "differs from the manifest",
    ),
    "a manifest that is no JSON": (lambda m: [(member("manifest.json", size=2), b"{x"), *m[1:]], "does not hold"),
    "a manifest nested without end": (
        lambda m: [(member("manifest.json", size=200_000), b"[" * 200_000), *m[1:]],
        "nested",
    ),
    "a manifest that was changed": (
        lambda m: [(member("manifest.json", size=len(m[0][1])), m[0][1].replace(b'"batch":2', b'"batch":1')), *m[1:]],
        "checksum",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(made: Made, place: Path, what: str) -> None:
    change, reason = HOSTILE[what]

    path = archive(place.parent / "bad.tar", change(members_of(*made)))

    assert_refused(path, place, reason)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_in_blocks_of_their_own_are_refused(made: Made, place: Path, form: int) -> None:
    members = members_of(*made)
    long = [*members, (member(f"{QUERY}/" + "a/" * 200 + "b"), b"")]

    assert_refused(archive(place.parent / "long.tar", long, form=form), place, "not a plain file")


def test_a_sparse_member_is_refused(made: Made, place: Path) -> None:
    members = members_of(*made)
    sparse = [*members[:-1], (member(members[-1][0].name, kind=tarfile.GNUTYPE_SPARSE), b"")]

    assert_refused(archive(place.parent / "sparse.tar", sparse, form=tarfile.GNU_FORMAT), place, "not a plain file")


def test_a_negative_size_is_refused(made: Made, place: Path) -> None:
    info = member(f"{QUERY}/offsets/9")
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = (-512).to_bytes(12, "big", signed=True)  # GNU's form for numbers that octal digits cannot hold
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    path = place.parent / "negative.tar"
    members = archive(path, members_of(*made)[:1]).read_bytes()
    first = 512 + -(-len(made[1].to_bytes()) // 512) * 512
    path.write_bytes(members[:first] + bytes(block) + bytes(1024))

    assert_refused(path, place, "-512 bytes")


def test_something_after_the_end_is_refused(made: Made, place: Path) -> None:
    path = archive(place.parent / "tail.tar", members_of(*made))
    path.write_bytes(path.read_bytes() + b"x")

    assert_refused(path, place, "follows its end")


def test_zeros_without_end_are_refused(made: Made, place: Path) -> None:
    path = archive(place.parent / "zeros.tar", members_of(*made))
    path.write_bytes(gzip.compress(path.read_bytes() + bytes(8 * 1024 * 1024)))

    assert_refused(path, place, "follows its end")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_archive_that_is_cut_anywhere_is_refused(made: Made, place: Path, suffix: str) -> None:
    whole = place.parent / f"whole{suffix}"
    export(*made, whole)
    data = whole.read_bytes()

    end = {".tar": 1024, ".tar.zst": 3}.get(suffix, 1)  # what follows the content: zeros, or an empty block
    for length in range(0, len(data) - end, max(len(data) // 40, 1)):
        cut = place.parent / f"cut{suffix}"
        cut.write_bytes(data[:length])
        assert_refused(cut, place, None)


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar.zst"])
def test_a_flipped_bit_in_a_packed_archive_is_refused(made: Made, place: Path, suffix: str) -> None:
    export(*made, place.parent / f"sp{suffix}")
    data = bytearray((place.parent / f"sp{suffix}").read_bytes())
    data[len(data) // 2] ^= 4
    (place.parent / f"flipped{suffix}").write_bytes(bytes(data))

    assert_refused(place.parent / f"flipped{suffix}", place, None)


def test_what_is_no_archive_at_all_is_refused(place: Path) -> None:
    path = place.parent / "text.tar"
    path.write_text("this is a letter to a friend\n" * 100)

    assert_refused(path, place, "not an archive")


def test_a_manifest_of_absurd_size_is_not_read(place: Path) -> None:
    header = member("manifest.json", size=MANIFEST_BYTES + 1).tobuf(tarfile.USTAR_FORMAT)
    (place.parent / "absurd.tar").write_bytes(header)

    assert_refused(place.parent / "absurd.tar", place, "more than")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_bomb_costs_no_memory(made: Made, place: Path, pack: Callable[[bytes], bytes]) -> None:
    """64 MiB of zeros in a few kilobytes, where the manifest has a file of some bytes."""
    members = members_of(*made)
    bomb = [*members[:-1], (member(members[-1][0].name, size=64 * 1024**2), bytes(64 * 1024**2))]
    path = archive(place.parent / "bomb.tar", bomb)
    path.write_bytes(pack(path.read_bytes()))

    tracemalloc.start()
    try:
        assert_refused(path, place, "the manifest records")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 16 * 1024**2


def made_by_hand(files: dict[str, ManifestFile], **changes: object) -> Savepoint:
    own = {name.removeprefix(f"{QUERY}/"): file.size for name, file in files.items() if name.startswith(f"{QUERY}/")}
    values: dict[str, object] = {
        "savepoint_id": "s1",
        "job_id": "",
        "run": 0,
        "epoch": 0,
        "created_at": datetime(2026, 1, 1, tzinfo=timezone.utc),
        "queries": {QUERY: QueryCut(batch=0, sink=QuerySink(kind=SinkKind.OTHER), files=own)},
        "files": files,
        "graph": "",
        "spark_version": "4.2.0",
    }
    return Savepoint.model_validate(values | changes)


EMPTY = ManifestFile(size=0, sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
NO_FILES = QueryCut(batch=0, sink=QuerySink(kind=SinkKind.OTHER))
OTHER_SINK = QueryCut(batch=0, sink=QuerySink(kind=SinkKind.FILE, path="/out\x1b[2J"))
MANIFESTS: dict[str, tuple[Savepoint, str]] = {
    "absolute": (made_by_hand({"/etc/passwd": EMPTY}), "leads out"),
    "up": (made_by_hand({f"{QUERY}/../../x": EMPTY}), "leads out"),
    "dot": (made_by_hand({f"{QUERY}/./x": EMPTY}), "leads out"),
    "empty segment": (made_by_hand({f"{QUERY}//x": EMPTY}), "leads out"),
    "escape": (made_by_hand({f"{QUERY}/a\x1b[2Jb": EMPTY}), "characters"),
    "newline": (made_by_hand({f"{QUERY}/a\nb": EMPTY}), "characters"),
    "nul": (made_by_hand({f"{QUERY}/a\0b": EMPTY}), "characters"),
    "backslash": (made_by_hand({f"{QUERY}\\..\\x": EMPTY}), "characters"),
    "right to left": (made_by_hand({f"{QUERY}/a\u202eb": EMPTY}), "characters"),
    "long segment": (made_by_hand({f"{QUERY}/{'x' * 256}": EMPTY}), "too long"),
    "long path": (made_by_hand({f"{QUERY}/{'x/' * 1100}y": EMPTY}), "too long"),
    "beside the queries": (made_by_hand({"authorized_keys": EMPTY}), "belongs to no query"),
    "another query": (made_by_hand({"other/metadata": EMPTY}), "belongs to no query"),
    "file and directory": (made_by_hand({f"{QUERY}/a": EMPTY, f"{QUERY}/a/b": EMPTY}), "both a file and the dir"),
    "negative size": (made_by_hand({f"{QUERY}/a": ManifestFile(size=-1, sha256=EMPTY.sha256)}), "size and digest"),
    "no digest": (made_by_hand({f"{QUERY}/a": ManifestFile(size=0, sha256="")}), "size and digest"),
    "two digests": (made_by_hand({f"{QUERY}/a": EMPTY.model_copy(update={"digest": "00000000"})}), "size and digest"),
    "a digest of nothing": (made_by_hand({f"{QUERY}/a": ManifestFile(size=0, digest="00000000")}), "size and digest"),
    "no digest of its algorithm": (
        made_by_hand({f"{QUERY}/a": ManifestFile(size=0, digest="0" * 64, algorithm=Algorithm.CRC32C)}),
        "size and digest",
    ),
    "a query that leads out": (made_by_hand({}, queries={"../x": NO_FILES}), "query name"),
    "a query with the name of the sinks": (made_by_hand({}, queries={"sinks": NO_FILES}), "is reserved"),
    "files that are not described": (
        made_by_hand({}, queries={QUERY: QueryCut(batch=0, sink=QuerySink(kind=SinkKind.OTHER), files={"a": 1})}),
        "description",
    ),
    "a label for the terminal": (made_by_hand({}, label="\x1b]0;owned\x07"), "characters"),
    "a sink for the terminal": (made_by_hand({}, queries={QUERY: OTHER_SINK}), "characters"),
    "no version of Spark": (made_by_hand({}, spark_version="$(id)"), "version of Spark"),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_manifest_that_no_savepoint_has_is_refused(place: Path, what: str) -> None:
    manifest, reason = MANIFESTS[what]
    data = manifest.to_bytes()

    path = archive(place.parent / "bad.tar", [(member("manifest.json", size=len(data)), data)])

    assert_refused(path, place, reason)


@pytest.mark.parametrize("what", MANIFESTS)
def test_nor_can_it_be_packed(place: Path, what: str) -> None:
    with pytest.raises(CheckpointCorruptError):
        export(place, MANIFESTS[what][0], place / "sp.tar")

    assert names_in(place) == []


def test_a_name_that_a_header_cannot_hold_is_refused_before_anything_is_written(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be archived"):
        export(place, made_by_hand({f"{QUERY}/{'x' * 200}": EMPTY}), place / "sp.tar")

    assert names_in(place) == []


def test_a_file_of_gigabytes_is_streamed(tmp_path: Path) -> None:
    """Memory does not grow with the savepoint: 48 MiB are packed and unpacked in less than 16."""
    directory, manifest = savepoint(tmp_path)
    big = directory / "sinks" / QUERY / "_spark_metadata"
    big.mkdir(parents=True)
    (big / "0").write_bytes(os.urandom(1024) * 48 * 1024)
    size = ManifestFile(size=48 * 1024**2, sha256=sha256_of(big / "0"))
    name = f"sinks/{QUERY}/_spark_metadata/0"
    manifest = manifest.model_copy(update={"files": {**manifest.files, name: size}})

    tracemalloc.start()
    try:
        export(directory, manifest, tmp_path / "big.tar.zst")
        unpack(tmp_path / "big.tar.zst", tmp_path / "back")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (tmp_path / "back" / name).stat().st_size == size.size
    assert peak < 16 * 1024**2


def sha256_of(path: Path) -> str:
    return subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True).stdout.split()[0]


def test_an_archive_of_another_tool_is_taken_when_it_is_the_same(made: Made, place: Path) -> None:
    """Nothing depends on who wrote it: GNU tar's own archive of the same files, manifest first."""
    directory, manifest = made
    names = ["manifest.json", *sorted(manifest.files)]
    subprocess.run(["tar", "--format=ustar", "-cf", place.parent / "gnu.tar", "-C", directory, *names], check=True)

    assert unpack(place.parent / "gnu.tar", place / "back") == manifest


def test_json_of_the_manifest_is_kept_as_it_came(made: Made, place: Path) -> None:
    members = members_of(*made)
    spaced = json.dumps(json.loads(members[0][1]), indent=1).encode()
    stream = io.BytesIO(spaced).getvalue()

    path = archive(place.parent / "sp.tar", [(member("manifest.json", size=len(stream)), stream), *members[1:]])
    unpack(path, place / "back")

    assert (place / "back" / "manifest.json").read_bytes() == spaced
