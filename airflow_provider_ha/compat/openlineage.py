"""What this package takes from the OpenLineage provider: imported only where that is installed."""

from __future__ import annotations

from airflow.providers.openlineage.extractors import OperatorLineage


__all__ = ["OperatorLineage"]
