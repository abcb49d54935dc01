"""What runs beside the user's application: leadership, publishing, stop. Never imports Airflow.

A script needs nothing of it. One that wants to know its epoch asks :func:`current`.
"""

from airflow_provider_ha.driver.context import DriverContext, current


__all__ = ["DriverContext", "current"]
