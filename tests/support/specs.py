"""Specs of jobs that differ from one another."""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.jobs.options.job_spec import JobSpec, Start


def changed(spec: JobSpec, **changes: Any) -> JobSpec:
    """Return a spec with other values; options of its start under their own names."""
    start = {name: changes.pop(name) for name in Start.model_fields if name in changes}
    if start:
        changes["start"] = spec.start.model_copy(update=start)
    return spec.model_copy(update=changes)
