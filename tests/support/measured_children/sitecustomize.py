"""Measure the coverage of supervisors and drivers: ``make coverage`` puts this directory on their ``PYTHONPATH``.

coverage.py reaches child processes by a variable, and a driver inherits only the variables that it needs. Python
imports this module at the start of each process; one that coverage.py measures already is left alone.
"""

import os
from pathlib import Path


_ROOT = Path(__file__).parents[3]

if "COVERAGE_PROCESS_CONFIG" not in os.environ:
    from coverage import Coverage

    _coverage = Coverage(
        config_file=str(_ROOT / ".ci" / "coverage.toml"),
        data_file=str(_ROOT / "build" / "coverage" / "data"),
        data_suffix=True,
        auto_data=True,
    )
    _coverage.start()
