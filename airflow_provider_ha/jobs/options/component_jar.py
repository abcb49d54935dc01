"""Where the jar of the component in Spark's JVM is."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha._version import __version__
from airflow_provider_ha.errors import ConfigurationError


_FOLDER = Path(__file__).parents[2] / "driver" / "jvm"


def component_jar(folder: Path = _FOLDER) -> Path:
    """Return the jar of this release, which lies in the package.

    :raises ConfigurationError: The package was installed from its sources, on a host without a JDK.
    """
    jar = folder / f"spark-ha-component-{__version__}.jar"
    if not jar.is_file():
        raise ConfigurationError(
            f"this installation has no {jar.name}, which Spark needs for checkpoints on s3:// and hdfs://",
            next_step="Install the wheel, or install a JDK and run `python java/build_component.py` in the checkout",
        )
    return jar
