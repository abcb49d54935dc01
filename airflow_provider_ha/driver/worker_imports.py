"""The imports of Python workers: the modules next to the script, and wheels among the ``py_files``.

A function of such a module is pickled by its name, so each worker has to import it. There are two ways:

- On the driver's host a worker's path names the directory itself, with its data files and compiled modules. That is
  enough for a local master, whose executors are processes of this host, and for the workers that Spark starts on the
  driver's host under each master (the first batch of ``transformWithState``, Python data sources).
- Executors of other hosts get an archive, which Spark unpacks among the files of each executor.

The path is no variable of the driver's own environment: there it would hide modules that the driver needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from airflow_provider_ha.jobs.application.archives import UNPACKED_AS
from airflow_provider_ha.uris import list_item


WORKER_PATH = "spark.executorEnv.PYTHONPATH"
ARCHIVES = "spark.archives"


def worker_path(conf: Mapping[str, str], directory: Path) -> str:
    """Return the value of :data:`WORKER_PATH`: *directory* (of the script), then the entries of *conf*."""
    return os.pathsep.join(filter(None, (str(directory), conf.get(WORKER_PATH))))


def archive_item(archive: Path) -> str:
    """Return the item of :data:`ARCHIVES` that lets Spark unpack *archive* on each executor."""
    return f"{list_item(archive)}#{UNPACKED_AS}"


def search_archive(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap the start of a ``SparkContext``: its workers search the unpacked archive before everything else."""

    def initialize(context: Any, *arguments: Any, **keywords: Any) -> None:
        original(context, *arguments, **keywords)
        shipped = (context.getConf().get(ARCHIVES) or "").split(",")
        if any(item.endswith(f"#{UNPACKED_AS}") for item in shipped):
            context._python_includes.append(UNPACKED_AS)  # noqa: SLF001  # addPyFile takes no directory

    return initialize


def import_wheels(context_class: Any) -> None:
    """Let workers import wheels among the ``py_files``: Spark ships them, but searches zips, eggs and jars only."""
    context_class.PACKAGE_EXTENSIONS = (*context_class.PACKAGE_EXTENSIONS, ".whl")
