"""What tests of the Airflow surface share: a separate Airflow home, connections, contexts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.config import HaConfig


# One for each test process: a test that ends removes DAGs and runs that another one may have under the same name.
_PROCESS = os.environ.get("PYTEST_XDIST_WORKER", "main")
AIRFLOW_HOME = Path(__file__).parents[3] / "build" / "test-cache" / "airflow-home" / _PROCESS


# Of a process that reads releases and settings of Airflow: logging and database, which take seconds, are not set up.
AS_LIBRARY = {"_AIRFLOW__AS_LIBRARY": "1"}


def use_own_airflow_home() -> None:
    """Keep Airflow away from the home of the user who runs the tests. Has to be called before Airflow is imported."""
    AIRFLOW_HOME.mkdir(parents=True, exist_ok=True)
    os.environ["AIRFLOW_HOME"] = str(AIRFLOW_HOME)  # a test process of xdist inherits that of the one that started it
    os.environ.setdefault("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


def connection_json(config: HaConfig) -> str:
    """Return the connection that leads to *config*, as Airflow reads it from the environment."""
    extra = {
        "storage_root": config.storage_root,
        "cluster_id": config.cluster_id,
        "root": config.root,
        "session_timeout": 10,
    }
    return json.dumps({"conn_type": "spark_ha", "host": config.zookeeper, "extra": extra})


def storage_path(config: HaConfig) -> Path:
    return Path(unquote(urlsplit(config.storage_root).path))


def context(*, ti_id: str = "ti-1", run_id: str = "manual__1", map_index: int = -1, **more: Any) -> dict[str, Any]:
    """Return the part of Airflow's context that is read."""
    xcom: dict[str, Any] = {}

    def xcom_push(key: str, value: Any) -> None:
        xcom[key] = value

    ti = SimpleNamespace(
        id=ti_id, dag_id="dag", task_id="task", run_id=run_id, map_index=map_index, xcom=xcom, xcom_push=xcom_push
    )
    return {"ti": ti, **more}


class StateStore:
    """Airflow's task state store, as far as it is used."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value
