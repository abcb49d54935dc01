"""Content-addressed blobs: a blob's name is the digest of its bytes.

Invariant: bytes read under a digest have that digest. A process uploads a blob before it refers to it (contract 2: blob
first, pointer second); a collector removes only unreferenced blobs older than 24 hours, so an upload of an existing
blob renews its time instead.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from airflow_provider_ha.errors import (
    ObjectExistsError,
    ObjectMissingError,
    RecordCorruptError,
    StorageUnavailableError,
)
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.durable import COPY_BUFFER, make_directories, prepared
from airflow_provider_ha.storage.object_store import ObjectStore


class BlobRef(NamedTuple):
    """Blob in the store.

    :param sha256: Digest of its bytes, 64 hex digits; also its name.
    :param size: Bytes.
    """

    sha256: str
    size: int


def blob_ref(content: bytes | Path) -> BlobRef:
    """Return the digest and the size that bytes, or a file as it is now, would have in a store. Writes nothing.

    :raises OSError: *content* is a file that cannot be read.
    """
    if isinstance(content, Path):
        return BlobRef(_digest(content), content.stat().st_size)
    return BlobRef(hashlib.sha256(content).hexdigest(), len(content))


def put_blob(store: ObjectStore, content: bytes | Path) -> BlobRef:
    """Put bytes, or a file as it is now, into the store, and return its digest and size.

    :raises OSError: *content* is a file that cannot be read; the store is unchanged.
    :raises StorageError: The store could not be written.
    """
    if isinstance(content, Path):
        return _put_file(store, content)
    blob = blob_ref(content)
    try:
        store.create(keys.blob(blob.sha256), content)
    except ObjectExistsError:
        if not _renewed(store, blob):
            store.write(keys.blob(blob.sha256), content)
    return blob


def get_blob(store: ObjectStore, sha256: str) -> bytes:
    """Return the bytes of a blob.

    :raises ObjectMissingError: The blob is missing.
    :raises RecordCorruptError: The bytes have another digest.
    :raises StorageUnavailableError: It could not be read.
    """
    data = store.read(keys.blob(sha256))
    _check_digest(store, sha256, hashlib.sha256(data).hexdigest())
    return data


def fetch_blob(store: ObjectStore, sha256: str, target: Path) -> None:
    """Copy a blob to a local file that appears complete, with the right digest and readable by its owner only.

    :raises ObjectMissingError: The blob is missing.
    :raises RecordCorruptError: The bytes have another digest; *target* is unchanged.
    :raises StorageUnavailableError: It could not be read.
    """
    make_directories(target.parent)
    with prepared(target) as (temporary, stream):
        stream.close()
        store.download(keys.blob(sha256), temporary)
        _check_digest(store, sha256, _digest(temporary))
        temporary.replace(target)


def _put_file(store: ObjectStore, source: Path) -> BlobRef:
    with _frozen(source) as (copy, blob):
        if not _renewed(store, blob):
            store.upload(keys.blob(blob.sha256), copy)
    return blob


@contextmanager
def _frozen(source: Path) -> Iterator[tuple[Path, BlobRef]]:
    """Yield a private copy with its digest.

    Otherwise a file that is edited during its upload would be stored under a wrong digest.
    """
    with source.open("rb") as original, tempfile.NamedTemporaryFile(prefix="spark-ha-") as copy:
        digest = hashlib.sha256()
        while chunk := original.read(COPY_BUFFER):
            digest.update(chunk)
            copy.write(chunk)
        copy.flush()
        yield Path(copy.name), BlobRef(digest.hexdigest(), copy.tell())


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(COPY_BUFFER):
            digest.update(chunk)
    return digest.hexdigest()


def _renewed(store: ObjectStore, blob: BlobRef) -> bool:
    """Renew the time of a blob; return whether it then exists with the right size.

    The time is set before the check: a removal by a collector in between is noticed, and a later collector sees the new
    time. An unavailable store is not reported here: the upload that follows meets and reports the same fault.
    """
    key = keys.blob(blob.sha256)
    try:
        store.touch(key)
        found = store.info(key)
    except (ObjectMissingError, StorageUnavailableError):
        return False
    return found is not None and found.size == blob.size


def _check_digest(store: ObjectStore, expected: str, found: str) -> None:
    if found != expected:
        raise RecordCorruptError(
            f"blob {expected} in {store.uri} is damaged: its bytes have the digest {found}",
            next_step=f"Remove object {keys.blob(expected)!r}, then submit the same application again",
        )
