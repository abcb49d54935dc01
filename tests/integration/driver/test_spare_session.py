"""The session of a standby driver under scripts of every kind, with a real Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.spark.driver_helpers import APPS, PATIENCE


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the scripts in one process."""
    folder = tmp_path_factory.mktemp("spare")
    options = "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false pyspark-shell"
    java = os.environ["SPARK_SUBMIT_OPTS"].replace("UseSerialGC", "UseG1GC")  # Java's default, which returns memory
    environment = os.environ | {
        "PYSPARK_SUBMIT_ARGS": options,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": java,
    }
    ran = subprocess.run(
        [sys.executable, str(APPS / "takes_spares.py"), str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def test_a_script_gets_the_session_that_was_made_for_it(found: dict[str, Any]) -> None:
    assert found["plain script"]
    assert found["second session"]
    assert found["its conf"] == "3"


def test_a_query_of_the_warm_up_is_no_query_of_the_script(found: dict[str, Any]) -> None:
    """Otherwise ``awaitAnyTermination()`` returns immediately, and the run is FINISHED."""
    assert found["a query has ended"] is False


def test_the_warm_up_leaves_no_file(found: dict[str, Any]) -> None:
    assert found["warm"]


def test_the_heap_gives_back_what_the_warm_up_has_left(found: dict[str, Any]) -> None:
    warm, waiting = found["heap"]
    assert waiting < warm


def test_a_script_with_conf_that_a_session_cannot_change_gets_a_new_one(found: dict[str, Any]) -> None:
    assert not found["static conf"]
    assert found["static value"] == "7"


def test_a_script_with_its_own_context_gets_it(found: dict[str, Any]) -> None:
    assert not found["own context"]
    assert found["rows"] == 5
