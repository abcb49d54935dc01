"""Where the file sink of a job writes: a directory that this host sees, or a prefix of a bucket."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit


LOG = "_spark_metadata"


class Output(Protocol):
    """The files of a sink, and its log."""

    def log(self) -> dict[str, str]:
        """Return the entries of the log by name."""

    def text(self, uri: str) -> str:
        """Return what a file holds that the log names."""


@dataclass(frozen=True, slots=True)
class LocalOutput:
    """A directory."""

    path: Path

    def log(self) -> dict[str, str]:
        """Return the entries of the log by name."""
        return {path.name: path.read_text() for path in (self.path / LOG).iterdir() if path.name[0].isdigit()}

    def text(self, uri: str) -> str:
        """Return what a file holds that the log names."""
        return Path(unquote(urlsplit(uri).path)).read_text()


@dataclass(frozen=True, slots=True)
class S3Output:
    """A prefix of a bucket, read with boto3 alone.

    :param client: boto3's client.
    :param uri: ``s3a://bucket/prefix``.
    """

    client: Any
    uri: str

    def log(self) -> dict[str, str]:
        """Return the entries of the log by name."""
        bucket, prefix = _place(f"{self.uri}/{LOG}/")
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        names = [entry["Key"][len(prefix) :] for page in pages for entry in page.get("Contents", ())]
        return {name: self._get(bucket, prefix + name) for name in names if name[:1].isdigit()}

    def text(self, uri: str) -> str:
        """Return what a file holds that the log names."""
        return self._get(*_place(uri))

    def _get(self, bucket: str, key: str) -> str:
        body: bytes = self.client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return body.decode()


def _place(uri: str) -> tuple[str, str]:
    parts = urlsplit(uri)
    return parts.netloc, unquote(parts.path).lstrip("/")
