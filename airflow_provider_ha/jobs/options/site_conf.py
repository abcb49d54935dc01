"""The site's ``spark-defaults.conf``: which one a driver of this host reads, and which keys it sets.

spark-submit reads it below the job's own conf (``--load-spark-defaults``). It is part of the host and not of the job
graph: after a move to another host the other host's file counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


FILE = "spark-defaults.conf"
_KEY = re.compile(r"\s*(spark\.[^\s:=]+)")


def site_defaults(spark_home: Path | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file that a driver of this host reads; ``None`` when there is none.

    :param spark_home: Spark's directory; ``None`` when it is not known.
    """
    folder = environment.get("SPARK_CONF_DIR")
    found = Path(folder) / FILE if folder else (spark_home / "conf" / FILE if spark_home is not None else None)
    return found if found is not None and found.is_file() else None


def keys_of(path: Path) -> list[str]:
    """Return the conf keys that the file sets, sorted. Values stay in the file: some are secrets.

    :raises OSError: It cannot be read.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return sorted({match[1] for line in lines if (match := _KEY.match(line))})
