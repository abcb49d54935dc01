"""Airflow's home is set before anything of Airflow is imported."""

from __future__ import annotations

from tests.support.clusters.airflow_helpers import use_own_airflow_home


use_own_airflow_home()
