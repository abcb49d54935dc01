"""A real ``transformWithState`` query, saved on S3 and brought elsewhere: its schema files are those beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import open_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore as restore_here
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.s3.s3_checkpoints import put_directory, tree
from tests.support.s3.s3_server import S3Access
from tests.support.s3.savepoints import place_of, restore, take
from tests.support.spark import tws_job


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def schema_paths(value: Any) -> Iterator[str]:
    """Yield every path of a schema file that the metadata of an operator names."""
    for item in value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]:
        if isinstance(item, str):
            yield from [item] if "/_stateSchema/" in item else []
        elif isinstance(item, list | dict):
            yield from schema_paths(item)


def test_a_query_goes_on_from_a_savepoint_on_s3_in_another_place(s3: S3Access, tmp_path: Path) -> None:
    live, bucket = tws_job.make(tmp_path), s3.new_bucket()
    put_directory(s3, bucket, "live/counts", live)
    one = place_of(s3, bucket)
    savepoint = take(one, [SavepointSource(query="counts", directory=f"s3://{bucket}/live/counts")])

    restore(s3, one, "again")
    restore_here(open_savepoint(one), tmp_path / "here")

    moved = tree(s3, bucket, "again/counts")
    operators = moved / "state/0/_metadata/v2"
    contents = [json.loads(operators.read(name).partition(b"\n")[2]) for name in operators.names()]
    named = [path for content in contents for path in schema_paths(content)]
    assert named
    for path in named:
        assert path.startswith(f"s3a://{bucket}/again/counts/state/")
        assert moved.has(path.removeprefix(f"s3a://{bucket}/again/counts/"))
    assert verify(moved, depth="full").restorable[-1] == savepoint.queries["counts"].batch
    answers = tws_job.go_on([tmp_path / "here" / "counts"], tmp_path / "input", tmp_path)
    assert answers == [{"error": None, "counts": tws_job.truth()}]
    # What it was made from is as it was.
    assert verify(open_savepoint(one).tree("counts"), depth="full").restorable[-1] == savepoint.queries["counts"].batch
