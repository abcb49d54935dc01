"""A file of a savepoint by copy or reflink, with the digest of the result.

Invariant: a later write to the source does not change the copy. A reflink shares blocks until one of the two is written
to, so it is a copy; a hard link is the same file, so the manifest says so.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile
from airflow_provider_ha.checkpoints.trees.digests import digest_of
from airflow_provider_ha.checkpoints.trees.files import opened
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.storage.durable import COPY_BUFFER, directories_as_above, flush, reflink
from airflow_provider_ha.storage.outage import outages


def copy_file(source: Path, target: Path, algorithm: Algorithm | None = Algorithm.SHA256) -> ManifestFile:
    """Copy a file, by reflink where the file system can, and force it to the disk.

    Through one open file: a state file that another replaces by a rename stays whole under this descriptor.

    :param algorithm: Algorithm of the digest; ``None`` for no digest.
    :raises FileNotFoundError: The file is not there.
    :raises StorageUnavailableError: One of the two file systems does not answer.
    """
    with outages(f"copied to {target}", source):
        directories_as_above(target.parent)
        with source.open("rb") as reader, target.open("x+b") as writer:
            if reflink(reader, writer):
                copied = digest_of(writer, algorithm=algorithm)
            else:
                copied = digest_of(reader, writer.write, algorithm=algorithm)
            flush(writer)
    return copied


def copy_out(tree: Tree, name: str, target: Path) -> None:
    """Copy a file of any tree to this host, and force it to the disk.

    :raises FileGoneError: It is not there.
    :raises StorageUnavailableError: It could not be read, or not be written here.
    """
    with opened(tree, name) as source, outages("written", target):
        directories_as_above(target.parent)
        with target.open("xb") as writer:
            for offset in range(0, source.size, COPY_BUFFER):
                writer.write(source.read_at(offset, COPY_BUFFER))
            flush(writer)


def shares_inode(path: Path) -> bool:
    """Return whether a file has another hard link: a write through that link changes it."""
    return path.lstat().st_nlink > 1
