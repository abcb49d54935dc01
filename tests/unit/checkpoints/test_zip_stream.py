"""Zips as Java writes them, in any pieces, and zips that lie."""

from __future__ import annotations

import io
import itertools
import struct
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.spark import rocksdb as zip_module
from airflow_provider_ha.checkpoints.spark.rocksdb import ZipCorruptError, ZipMembers, read_members
from tests.support.checkpoints.state_files import zip_stream


CONTENTS = {"CURRENT": b"MANIFEST-1\n", "MANIFEST-1": bytes(range(256)) * 50, "000009.log": b""}


def java_zip(members: dict[str, bytes]) -> bytes:
    """Write a zip whose sizes follow the contents."""
    return b"".join(zip_stream({name: [content] for name, content in members.items()}))


def plain_zip(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Write a zip whose sizes are in the heads of its members."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def head(*, packed: int, unpacked: int, method: int = 8, flags: int = 0, name: bytes = b"a", length: int = 1) -> bytes:
    """Write the head of a member, with any claims."""
    return struct.pack("<4sHHHHHIIIHH", b"PK\x03\x04", 20, flags, method, 0, 0, 0, packed, unpacked, length, 0) + name


def read(data: bytes, size: int = 1 << 18, **keep: int) -> ZipMembers:
    """Read a zip that comes in pieces of *size* bytes."""
    return read_members((data[at : at + size] for at in range(0, len(data), size)), len(data), keep)


def problem(data: bytes, **keep: int) -> str:
    with pytest.raises(ZipCorruptError) as caught:
        read(data, **keep)
    return str(caught.value)


@pytest.mark.parametrize(
    "data",
    [java_zip(CONTENTS), plain_zip(CONTENTS), plain_zip(CONTENTS, zipfile.ZIP_DEFLATED)],
    ids=["java", "stored", "deflated"],  # their bytes hold the time of the collection
)
@settings(deadline=None)
@given(size=st.integers(1, 6000))
def test_a_zip_is_read_from_pieces_of_any_size(data: bytes, size: int) -> None:
    found = read(data, size, CURRENT=100)
    assert found.sizes == {name: len(content) for name, content in CONTENTS.items()}
    assert found.kept == {"CURRENT": CONTENTS["CURRENT"]}


def test_a_member_that_unpacks_to_much_more_than_itself_is_read_to_its_end() -> None:
    content = b"".join(b"%d" % number**3 + bytes(200) for number in range(10_000))
    sizes = read(java_zip({"MANIFEST-1": content, "CURRENT": b"x"})).sizes
    assert sizes == {"MANIFEST-1": len(content), "CURRENT": 1}


def test_the_table_of_contents_at_the_end_is_not_needed() -> None:
    whole = java_zip(CONTENTS)
    assert read(whole[: whole.index(b"PK\x01\x02")]).sizes.keys() == CONTENTS.keys()


@settings(deadline=None)
@given(st.data())
def test_a_flipped_byte_in_a_member_is_found(data: st.DataObject) -> None:
    damaged = bytearray(java_zip({"MANIFEST-1": CONTENTS["MANIFEST-1"]}))
    begin = 30 + len("MANIFEST-1")
    damaged[data.draw(st.integers(begin, damaged.index(b"PK\x07\x08") - 1))] ^= 0x21
    assert problem(bytes(damaged))


@pytest.mark.parametrize("lost", [1, 5, 100])
@pytest.mark.parametrize("write", [java_zip, plain_zip])
def test_a_zip_that_is_cut_inside_a_member_is_not_whole(write: object, lost: int) -> None:
    assert callable(write)
    whole: bytes = write({"a": zlib.compress(bytes(range(256)) * 4) * 3})
    assert problem(whole[: whole.index(b"PK\x01\x02") - lost])


def test_what_does_not_begin_as_a_zip_is_none() -> None:
    assert "does not begin" in problem(b"something else")


def test_a_member_that_is_compressed_in_an_unknown_way_is_named() -> None:
    assert "member 'a' has the unknown method 12" in problem(head(packed=0, unpacked=0, method=12))


# Claims. Each says what is claimed, and what is there.


def test_a_member_that_claims_100_gigabytes_in_a_few_bytes_is_refused() -> None:
    claim = problem(head(packed=50, unpacked=0xFFFFFFFE) + bytes(50))
    assert "claims to unpack 50 bytes to 4294967294" in claim


def test_a_member_that_claims_more_than_the_file_has_is_refused() -> None:
    claim = problem(head(packed=1000, unpacked=1000, method=0) + b"abc")
    assert "claims 1000 packed bytes, 3 are there" in claim


def test_a_member_that_is_kept_has_a_limit_of_its_own() -> None:
    assert "unpacks to more than 64 bytes" in problem(java_zip({"metadata": b"x" * 65}), metadata=64)


def test_all_members_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_module, "_TOTAL_LIMIT", 100)
    assert read(java_zip({"a": b"x" * 50, "b": b"x" * 50})).sizes == {"a": 50, "b": 50}
    assert "member 'b' unpacks to more than 50 bytes" in problem(java_zip({"a": b"x" * 50, "b": b"x" * 51}))


def test_a_zip_has_no_more_members_than_a_rocksdb_directory_can_have() -> None:
    empty = (head(packed=0, unpacked=0, method=0, name=b"%06d" % number, length=6) for number in itertools.count())
    data = b"".join(itertools.islice(empty, 10_001))
    assert "more than 10000 members" in problem(data)


def test_a_name_is_no_longer_than_a_file_system_takes() -> None:
    assert "claims 60000 bytes" in problem(head(packed=0, unpacked=0, length=60_000) + b"x" * 60_000)
