"""The whole tree of a cluster from storage alone, after ZooKeeper's data is lost: evidence -> plan -> apply."""

from airflow_provider_ha.control.rebuild.apply import Applied, apply_job
from airflow_provider_ha.control.rebuild.cluster import RebuildPlan, plan_rebuild, rebuild
from airflow_provider_ha.control.rebuild.plan import JobPlan


__all__ = ["Applied", "JobPlan", "RebuildPlan", "apply_job", "plan_rebuild", "rebuild"]
