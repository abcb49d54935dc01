"""The driver around the user's application: leadership, publishing, stop. Never imports Airflow.

Scripts do not need it. A script that uses its epoch calls :func:`current`.
"""

from airflow_provider_ha.driver.context import DriverContext, current


__all__ = ["DriverContext", "current"]
