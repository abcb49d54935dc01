"""What spark-submit runs: a script, because spark-submit takes no module. Everything else is in ``main``."""

import sys
from pathlib import Path


def enter() -> None:
    """Import the package by its name, and run the driver.

    spark-submit puts the directory of this script first: names of our modules would then hide the user's and Spark's.
    """
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    package_parent = str(Path(here).parent.parent)
    if package_parent not in sys.path:
        sys.path.append(package_parent)
    from airflow_provider_ha.driver.main import main  # noqa: PLC0415  # the path had to be repaired first

    main()


if __name__ == "__main__":
    enter()
