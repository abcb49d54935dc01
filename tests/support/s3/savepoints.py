"""Savepoints below a prefix of a bucket, as tests make and read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.model import Savepoint
from airflow_provider_ha.checkpoints.store.savepoints import creation
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import (
    PrefixLayout,
    SavepointPrefix,
    open_savepoint,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore_files
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.storage.s3_store import S3Store
from tests.support.s3.s3_server import S3Access


def place_of(s3: S3Access, bucket: str, name: str = "one", endpoint: str | None = None) -> SavepointPrefix:
    """Return the place of a savepoint."""
    return SavepointPrefix(f"s3://{bucket}/savepoints/{name}", s3.options(endpoint))


def take(at: SavepointPrefix, sources: Sequence[SavepointSource[str]], **options: Any) -> Savepoint:
    """Make a savepoint of checkpoints in its bucket."""
    return creation.take(sources, PrefixLayout(at), **options)


def restore(s3: S3Access, at: SavepointPrefix, prefix: str, endpoint: str | None = None) -> None:
    """Make checkpoints of a savepoint in another prefix of its bucket."""
    restore_files(open_savepoint(at), S3Store(f"s3://{at.bucket}/{prefix}", s3.options(endpoint)))


def keys_of(at: SavepointPrefix) -> list[str]:
    """Return the names of all objects of a place, relative to it."""
    return [file.key.removeprefix(f"{at.key}/") for file in at.files.list(f"{at.key}/")]


def attempts_of(at: SavepointPrefix) -> set[str]:
    """Return the directories of all attempts at a savepoint."""
    return {key.partition("/")[0] for key in keys_of(at) if key.startswith("files-")}


def call(s3: S3Access, *words: str) -> str:
    """Call the command as a user does who has said in the environment where S3 is."""
    environment = {
        "COLUMNS": "300",
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }
    done = CliRunner(env=environment).invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout
