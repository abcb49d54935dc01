"""Which document each command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.views.acl import AclsView
from airflow_provider_ha.views.checkpoints import CheckpointDeletedView, CheckpointListView, CheckpointView
from airflow_provider_ha.views.deletion import DeletionView, ErasureView
from airflow_provider_ha.views.drills import DrillListView, DrillView
from airflow_provider_ha.views.examples import CopiedView
from airflow_provider_ha.views.graph import GraphView
from airflow_provider_ha.views.history import HistoryView
from airflow_provider_ha.views.job import JobListView, JobView, ReleasedView
from airflow_provider_ha.views.leader import ClusterShowView, JobLeaderView
from airflow_provider_ha.views.logs import LogLineView, LogView
from airflow_provider_ha.views.metrics import TargetsView
from airflow_provider_ha.views.move import MoveView
from airflow_provider_ha.views.new_savepoint import (
    NewSavepointView,
    PooledDisposedView,
    SweptView,
)
from airflow_provider_ha.views.operation import OperationView
from airflow_provider_ha.views.plan import PlanView
from airflow_provider_ha.views.prune import PruneView
from airflow_provider_ha.views.rebuild import RebuildView
from airflow_provider_ha.views.recovery import LeadingLineView, ReconciledLineView, RecoveryView
from airflow_provider_ha.views.savepoint_verification import SavepointVerificationView
from airflow_provider_ha.views.savepoints import (
    DisposedView,
    ExportedView,
    RestoredView,
    SavepointListView,
    SavepointView,
)
from airflow_provider_ha.views.storage import CollectionView, OrphansView, StorageCheckView
from airflow_provider_ha.views.submitted import JobSubmittedView, SubmittedView
from airflow_provider_ha.views.tree import TreeView
from airflow_provider_ha.views.verification import ProvenVerificationView, VerificationView
from airflow_provider_ha.views.view import View


# Command -> (when, what it prints then); one that fails prints ``views.errors.ErrorDocument``.
COMMANDS: Mapping[str, Mapping[str, type[View]]] = {
    "acl check": {"": AclsView},
    "acl repair": {"": AclsView},
    "checkpoint delete": {"": CheckpointDeletedView},
    "checkpoint list": {"": CheckpointListView},
    "checkpoint plan": {"": PlanView},
    "checkpoint show": {"": CheckpointView},
    "checkpoint trigger": {"": OperationView},
    "checkpoint verify": {"": VerificationView, "with `--depth prove`": ProvenVerificationView},
    "cluster erase": {"": ErasureView},
    "examples": {"": CopiedView},
    "job cancel": {"": OperationView},
    "job delete": {"": DeletionView},
    "job graph": {"": GraphView},
    "job history": {"": HistoryView},
    "job list": {"": JobListView},
    "job logs": {"": LogView, "with `--follow`, each line": LogLineView},
    "job move": {"": MoveView},
    "job release": {"": ReleasedView},
    "job show": {"": JobView},
    "job stop": {"": OperationView},
    "job submit": {"": JobSubmittedView},
    "leader show": {"": JobLeaderView},
    "cluster show": {"": ClusterShowView},
    "metrics files": {"": CopiedView},
    "metrics targets": {"each element of the list": TargetsView},
    "rebuild": {"": RebuildView},
    "recover": {
        "": RecoveryView,
        "with `--watch`, the first line": LeadingLineView,
        "with `--watch`, each other line": ReconciledLineView,
    },
    "restore": {"": SubmittedView, "with `--dry-run`": PlanView},
    "savepoint create": {"": NewSavepointView},
    "savepoint dispose": {"": DisposedView, "on S3": PooledDisposedView},
    "savepoint drill": {"": DrillView},
    "savepoint drills": {"": DrillListView},
    "savepoint export": {"": ExportedView},
    "savepoint import": {"": NewSavepointView},
    "savepoint list": {"": SavepointListView},
    "savepoint restore": {"": RestoredView},
    "savepoint show": {"": SavepointView},
    "savepoint sweep": {"": SweptView},
    "savepoint trigger": {"": OperationView},
    "savepoint verify": {"": SavepointVerificationView},
    "storage check": {"": StorageCheckView},
    "storage collect": {"": CollectionView},
    "storage orphans": {"": OrphansView},
    "storage prune": {"": PruneView},
    "tree": {"": TreeView},
}
