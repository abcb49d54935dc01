"""A Spark to which the site has added jars."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.support.clusters.standalone_cluster import spark_home


def spark_with(jars: Iterable[Path], target: Path) -> Path:
    """Make *target* the directory of a Spark that is the installed one with *jars* among its own; returns it."""
    installed = spark_home()
    (target / "jars").mkdir(parents=True)
    for entry in installed.iterdir():
        if entry.name != "jars":
            (target / entry.name).symlink_to(entry)
    for name, jar in {jar.name: jar for jar in (*jars, *(installed / "jars").iterdir())}.items():
        (target / "jars" / name).symlink_to(jar)
    return target
