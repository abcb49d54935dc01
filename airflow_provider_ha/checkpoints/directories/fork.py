"""A checkpoint directory made from another one: the closure of one batch, by hard links.

Invariant: the source is never changed, and nothing but the closure comes along. State of a later version would be
loaded silently by format 1, and source entries above the cut would merge their files into one batch with later ones
(spark-facts section 1).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.directories.links import building, hidden_checksum, link, write_aside
from airflow_provider_ha.checkpoints.format.closure import closure
from airflow_provider_ha.checkpoints.format.layout import progress
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError


# Operator metadata v2 names schema files by absolute path; 4.0 wrote the singular.
_SCHEMA_PATHS = ("stateSchemaFilePaths", "stateSchemaFilePath")


def fork(source: Path, target: Path, *, batch: int | None = None, keep_planned: bool) -> int:
    """Make *target* so that *batch* is its last committed batch; return the number of links.

    :param source: Checkpoint directory of one query; fenced, pinned or a savepoint: nobody writes to it.
    :param target: Does not exist yet; appears complete or not at all.
    :param batch: N; by default the last committed one.
    :param keep_planned: Whether the batch after N comes along when it is planned: Spark then executes exactly it.
    :raises CheckpointCorruptError: A file of the closure is damaged or gone.
    :raises CheckpointMissingError: Batch N is not there.
    :raises ObjectExistsError: The target exists.
    """
    last = progress(source).committed if batch is None else batch
    files = closure(source, last, with_planned=keep_planned).files
    with building(target) as hidden:
        _link_closure(source, hidden, list(files), last)
        for path in sorted(hidden.glob("state/*/_metadata/v2/*")):
            if path.name.isdigit():
                _relocate_schemas(path, target)
    return len(files)


def _link_closure(source: Path, target: Path, files: list[str], batch: int) -> None:
    for name in files:
        try:
            link(source / name, target / name)
        except FileNotFoundError:  # noqa: PERF203  # names the file
            raise CheckpointMissingError(
                f"batch {batch} of {source} was purged while it was linked: {name} is gone",
                next_step="Choose a newer batch",
            ) from None


def _relocate_schemas(path: Path, target: Path) -> None:
    # transformWithState: a moved checkpoint dies with FileNotFoundException unless these point to its own files.
    version, _, body = path.read_text().partition("\n")
    try:
        content = json.loads(body)
    except ValueError:
        raise CheckpointCorruptError(f"state/…/_metadata/v2/{path.name}", "it is not JSON") from None
    moved = _moved(content, target)
    if moved != content:
        checksum = path.with_name(f"{path.name}.crc")
        for stale in (checksum, hidden_checksum(checksum)):
            stale.unlink(missing_ok=True)
        write_aside(path, f"{version}\n{json.dumps(moved, separators=(',', ':'))}".encode())


def _moved(value: Any, target: Path) -> Any:
    if isinstance(value, dict):
        return {
            key: _new_path(item, target) if key in _SCHEMA_PATHS else _moved(item, target)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_moved(item, target) for item in value]
    return value


def _new_path(value: Any, target: Path) -> Any:
    if isinstance(value, list):
        return [_new_path(item, target) for item in value]
    if not isinstance(value, str) or "/state/" not in value:
        return value
    scheme = "file:" if value.startswith("file:") else ""
    return f"{scheme}{target}/state/{value.rpartition('/state/')[2]}"
