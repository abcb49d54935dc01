"""What tests of checkpoints on S3 share: a directory as objects, and a proxy that notes what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access


def put_directory(s3: S3Access, bucket: str, prefix: str, directory: Path) -> None:
    """Upload a directory; one that is empty becomes a marker, as S3A leaves it."""
    client = s3.client()
    for path in sorted(directory.rglob("*")):
        key = f"{prefix}/{path.relative_to(directory)}"
        if path.is_file():
            client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
        elif not any(path.iterdir()):
            client.put_object(Bucket=bucket, Key=f"{key}/", Body=b"")
    client.close()


def tree(s3: S3Access, bucket: str, prefix: str, endpoint: str | None = None) -> ObjectTree:
    """Return a prefix as a directory; a request is repeated once."""
    return ObjectTree(S3Store(f"s3://{bucket}/{prefix}", s3.options(endpoint), S3Limits(attempts=2)))


@dataclass
class Asked:
    """What a server was asked for.

    :param lists: Number of pages.
    :param reads: Keys, once for each request.
    :param others: Everything else.
    """

    lists: int = 0
    reads: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


@contextmanager
def noting_proxy(upstream: str) -> Iterator[tuple[str, Asked]]:
    """Yield the URL of a proxy before a server, and what it was asked for."""
    asked = Asked()

    def note(exchange: Exchange) -> None:
        parts = urlsplit(exchange.path)
        if "list-type" in parse_qs(parts.query):
            asked.lists += 1
        else:
            asked.reads.append(unquote(parts.path).lstrip("/").partition("/")[2])
        exchange.forward()

    def other(exchange: Exchange) -> None:
        asked.others.append(exchange.path)
        exchange.forward()

    faults = [Fault(note, "GET", times=FOR_EVER)]
    faults += [Fault(other, method, times=FOR_EVER) for method in ("HEAD", "PUT", "POST", "DELETE")]
    with s3_proxy(upstream, *faults) as endpoint:
        yield endpoint, asked
