"""Writes docs/reference/json.md from the views: ``python -m tests.docs.json_page``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from airflow_provider_ha.airflow_side.links import XCOM_KEY
from airflow_provider_ha.api.documents import events
from airflow_provider_ha.api.documents.checkpoints import (
    CheckpointDeletedView,
    CheckpointListView,
    CheckpointRow,
    CheckpointView,
    NewSavepointView,
    SavepointDeletedView,
    SavepointExportView,
    SavepointListView,
    SavepointRestoreView,
    SavepointRow,
    SavepointView,
)
from airflow_provider_ha.api.documents.cluster_events import CLUSTER_EVENTS, NoLeaderEvent
from airflow_provider_ha.api.documents.history import (
    ClusterShowView,
    DrillListView,
    DrillResultView,
    DrillView,
    HistoryView,
    JobLeaderView,
    LeadingLineView,
    ReconciledLineView,
    ReconciledView,
    RecoveryView,
    TakeoverView,
)
from airflow_provider_ha.api.documents.job import (
    JobListView,
    JobView,
    LastFailureView,
    LogLineView,
    LogView,
    MetricsTargetView,
    QuarantineReleaseView,
)
from airflow_provider_ha.api.documents.operation import (
    CancelResultView,
    CheckpointResultView,
    ClusterDeletionView,
    DeletionView,
    MoveView,
    OperationResultView,
    OperationView,
    RecoveredJobsView,
    SavepointResultView,
    StopResultView,
    TaskRunResultView,
    TaskRunView,
)
from airflow_provider_ha.api.documents.restore_plan import (
    PlanFiguresView,
    PlanView,
    QueryFiguresView,
    QueryPlanView,
    SelectionView,
)
from airflow_provider_ha.api.documents.stores import (
    AclsView,
    ArchiveListView,
    ArchivesRemovedView,
    ArchiveView,
    JobPruneView,
    NodeView,
    ProblemView,
    RebuildResultView,
    RebuildView,
    RebuiltJobView,
    StorageCheckView,
    StorageCleanView,
    TreeView,
    WrongAclView,
)
from airflow_provider_ha.api.documents.submission import GraphView, JobSubmittedView, SubmittedRunView
from airflow_provider_ha.api.documents.verdict import (
    CutVerdictView,
    DirectoryVerdictView,
    FileFindingView,
    LastVerificationView,
    RecordedFindingView,
)
from airflow_provider_ha.api.documents.verification import (
    ProofView,
    ProvenVerificationView,
    SavepointVerificationView,
    VerificationView,
)
from airflow_provider_ha.api.documents.view import CopiedFilesView, ErrorDocument, UnreadableView, View
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan
from airflow_provider_ha.checkpoints.store.orphaned_blobs import UnreadableReference
from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
from airflow_provider_ha.checkpoints.verify.proof_result import Proof
from airflow_provider_ha.cli.package_files import CopiedFiles
from airflow_provider_ha.coordination._kazoo_acls import WrongAcl
from airflow_provider_ha.fleet.cluster_removal import Erasure
from airflow_provider_ha.fleet.reconciler import ReconcileResult
from airflow_provider_ha.fleet.znode_tree import TreeNode
from airflow_provider_ha.jobs.rebuild.rebuild import RebuildResult
from airflow_provider_ha.jobs.rebuild.rebuild_plan import JobPlan
from airflow_provider_ha.jobs.removal.job_deletion import Deletion
from airflow_provider_ha.jobs.removal.past_runs import PruneReport
from airflow_provider_ha.jobs.runs.submissions import Failure, LastFailure
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.jobs.verification.verification_records import Drill, FindingRecord, LastVerification


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json.md"
# Command -> (when, what it prints then); one that fails prints ``view.ErrorDocument``.
COMMANDS: Mapping[str, Mapping[str, type[View]]] = {
    "acl check": {"": AclsView},
    "acl repair": {"": AclsView},
    "checkpoint list": {"": CheckpointListView},
    "checkpoint plan": {"": PlanView},
    "checkpoint show": {"": CheckpointView},
    "checkpoint trigger": {"": OperationView},
    "checkpoint verify": {"": VerificationView, "with `--depth prove`": ProvenVerificationView},
    "cluster rebuild": {"": RebuildView},
    "cluster recover": {
        "": RecoveryView,
        "with `--watch`, the first line": LeadingLineView,
        "with `--watch`, each other line": ReconciledLineView,
    },
    "cluster show": {"": ClusterShowView},
    "cluster tree": {"": TreeView},
    "delete checkpoint": {"": CheckpointDeletedView},
    "delete cluster": {"": ClusterDeletionView},
    "delete job": {"": DeletionView},
    "delete savepoint": {"": SavepointDeletedView},
    "drill list": {"": DrillListView},
    "drill run": {"": DrillView},
    "examples": {"": CopiedFilesView},
    "job cancel": {"": OperationView},
    "job fail-over": {"": TakeoverView},
    "job hand-over": {"": TakeoverView},
    "job graph": {"": GraphView},
    "job history": {"": HistoryView},
    "job leader": {"": JobLeaderView},
    "job list": {"": JobListView},
    "job logs": {"": LogView, "with `--follow`, each line": LogLineView},
    "job move": {"": MoveView},
    "job recover": {"": RecoveryView},
    "job release": {"": QuarantineReleaseView},
    "job restore": {"": SubmittedRunView, "with `--dry-run`": PlanView},
    "job show": {"": JobView},
    "job stop": {"": OperationView},
    "job submit": {"": JobSubmittedView},
    "metrics files": {"": CopiedFilesView},
    "metrics targets": {"each element of the list": MetricsTargetView},
    "savepoint create": {"": NewSavepointView},
    "savepoint export": {"": SavepointExportView},
    "savepoint import": {"": NewSavepointView},
    "savepoint list": {"": SavepointListView},
    "savepoint restore": {"": SavepointRestoreView},
    "savepoint show": {"": SavepointView},
    "savepoint trigger": {"": OperationView},
    "savepoint verify": {"": SavepointVerificationView},
    "archive list": {"": ArchiveListView},
    "archive make": {"": ArchiveView},
    "archive remove": {"": ArchivesRemovedView},
    "storage check": {"": StorageCheckView},
    "storage clean": {"": StorageCleanView},
}
# Operator -> (when, what it returns then).
OPERATORS: Mapping[str, Mapping[str, type[View]]] = {
    "SparkHaSubmitOperator": {"": TaskRunResultView},
    "SparkHaSavepointOperator": {"": SavepointResultView},
    "SparkHaCheckpointOperator": {"": CheckpointResultView},
    "SparkHaStopOperator": {"": StopResultView},
    "SparkHaCancelOperator": {"": CancelResultView},
    "SparkHaHandOverOperator": {"": OperationResultView},
    "SparkHaDeleteJobOperator": {"": DeletionView},
    "SparkHaMoveOperator": {"": MoveView},
    "SparkHaRestoreOperator": {"": TaskRunResultView},
    "SparkHaFollowOperator": {"": TaskRunResultView},
    "SparkHaRecoverJobsOperator": {"": RecoveredJobsView},
    "SparkHaPlanRestoreOperator": {"": PlanFiguresView},
    "SparkHaRestoreDrillOperator": {"": DrillResultView},
    "SparkHaSelectCheckpointOperator": {"": SelectionView},
    "SparkHaVerifyCheckpointOperator": {"of a directory": DirectoryVerdictView, "of a job": CutVerdictView},
    "SparkHaLeaderSensor": {"without `status`": events.LeaderEvent},
    "SparkHaJobStatusSensor": {"without `status`": events.StateEvent},
    "SparkHaCheckpointSensor": {"without `status`": events.CheckpointEvent},
}
# XCom key -> what it holds; written before the task defers.
XCOMS: Mapping[str, Mapping[str, type[View]]] = {XCOM_KEY: {"": TaskRunView}}
TRIGGERS: Mapping[str, Mapping[str, type[View]]] = {
    "SparkHaClusterTrigger": {"": NoLeaderEvent}
    | {f"`{kind}`": view for kind, view in CLUSTER_EVENTS.items() if kind != "no_leader"},
}
_HEAD = """\
# JSON

Documents of `--json`, return values of operators and sensors (XCom), and payloads of events. Moments are
ISO 8601 with time zone; digests are 64 hex digits. A later release may add keys.

A command that fails prints [an error](#errordocument) instead of its document. Documents contain no secrets.

`python -m tests.docs.json_page` generates this page from the classes in `airflow_provider_ha/api/documents`. A test
checks that it is current.
"""
# Texts of fields that mean the same in every document.
COMMON: Mapping[str, str] = {
    "job_id": "The job.",
    "run": "Number of the run.",
    "attempt": "Number of the submission within the run.",
    "host": "Host of the driver.",
    "pid": "Its process id.",
    "cut": "Query -> batch.",
    "created_at": "When it was taken.",
    "unreadable": "Records that are there and cannot be read.",
}
# Document -> records whose docstrings explain fields that the document declares itself.
EXPLAINED: Mapping[type[BaseModel], tuple[type, ...]] = {
    CheckpointRow: (CheckpointPointer, Checkpoint),
    SavepointRow: (SavepointPointer, Savepoint),
    DrillResultView: (Drill,),
    DrillView: (Drill,),
    LastVerificationView: (LastVerification,),
    RecordedFindingView: (FindingRecord,),
    FileFindingView: (FindingRecord,),
    LastFailureView: (Failure, LastFailure),
    PlanView: (RestorePlan,),
    QueryPlanView: (QueryPlan,),
    QueryFiguresView: (QueryPlan,),
    PlanFiguresView: (RestorePlan,),
    JobPruneView: (PruneReport,),
    ProblemView: (UnreadableReference,),
    UnreadableView: (UnreadableRecord,),
    RebuildResultView: (RebuildResult,),
    RebuiltJobView: (JobPlan,),
    WrongAclView: (WrongAcl,),
    NodeView: (TreeNode,),
    ReconciledView: (ReconcileResult,),
    ReconciledLineView: (ReconcileResult,),
    DeletionView: (Deletion,),
    ClusterDeletionView: (Erasure,),
    SubmittedRunView: (SubmittedRun,),
    CopiedFilesView: (CopiedFiles,),
    ProofView: (Proof,),
    NewSavepointView: (Savepoint,),
}
_PARAM = re.compile(r":param (\w+): (.*?)(?=\n\s*:\w+ ?\w*:|\n\s*\n|\Z)", re.DOTALL)
_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "`true` or `false`",
    datetime: "moment",
    NoneType: "`null`",
    Any: "anything",
}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the page."""
    parts = [
        _HEAD,
        _table("Commands", "Command", {f"spark-ha {name}": shown for name, shown in COMMANDS.items()}),
        _table("Operators and sensors", "Class", OPERATORS),
        _table("XCom of a running task", "Key", XCOMS),
        _table("Events", "Trigger", TRIGGERS),
        "## Documents\n",
        *(_section(model) for model in shown_models()),
    ]
    return "\n".join(parts)


def shown_models() -> list[type[BaseModel]]:
    """Return everything that can be a part of a document, by name."""
    found: dict[str, type[BaseModel]] = {}
    documents = (
        model
        for table in (COMMANDS, OPERATORS, XCOMS, TRIGGERS)
        for shown in table.values()
        for model in shown.values()
    )
    queue: list[type[BaseModel]] = [ErrorDocument, *documents]
    while queue:
        model = queue.pop()
        if found.setdefault(name_of(model), model) is not model:
            raise ValueError(f"two models are called {name_of(model)}")
        queue += [part for part in parts_of(model) if name_of(part) not in found]
    return [found[name] for name in sorted(found)]


def parts_of(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Return the models that the fields of *model* hold."""
    return [part for field in model.model_fields.values() for part in _models(field.annotation)]


def described(model: type[BaseModel]) -> dict[str, str]:
    """Return field -> its description: of the model, else of the record that it shows, else of any document."""
    shown = [kind.shown_record for kind in model.__mro__ if issubclass(kind, View) and kind.shown_record is not None]
    found: dict[str, str] = {}
    explained = [record for kind in model.__mro__ for record in EXPLAINED.get(kind, ())]
    for kind in (*model.__mro__, *shown, *explained):
        found = _texts(kind) | found
    always = {name: f"Always `{value}`." for name, value in _constants(model)}
    given = {name: field.description for name, field in model.model_fields.items() if field.description}
    return {**COMMON, **always, **found, **given}


def _texts(kind: type) -> dict[str, str]:
    found = {name: value.__doc__ or "" for name, value in vars(kind).items() if isinstance(value, property)}
    found = {name: text.partition("\n\n")[0] for name, text in found.items() if text}
    for name, text in _PARAM.findall(inspect.cleandoc(kind.__doc__ or "")):
        found[name] = " ".join(text.split())
    return found


def _constants(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is Literal and len(values := get_args(field.annotation)) == 1:
            yield name, values[0]


def name_of(model: type[BaseModel]) -> str:
    """Return the name of a model on the page."""
    return model.__name__.removesuffix("View")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _table(title: str, first: str, rows: Mapping[str, Mapping[str, type[View]]]) -> str:
    lines = [f"## {title}\n", f"| {first} | Document |", "|---|---|"]
    for name, shown in rows.items():
        documents = "; ".join(f"{when + ' ' if when else ''}{_link(model)}" for when, model in shown.items())
        lines.append(f"| `{name}` | {documents} |")
    return "\n".join(lines) + "\n"


def _section(model: type[BaseModel]) -> str:
    texts = described(model)
    lines = [f"### {name_of(model)}\n", f"{markdown((model.__doc__ or '').strip().partition(chr(10))[0])}\n"]
    lines += ["| Key | Type | Meaning |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        lines.append(f"| `{field.alias or name}` | {_type(field.annotation)} | {markdown(texts.get(name, ''))} |")
    return "\n".join(lines) + "\n"


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation]
    if origin in (Union, UnionType):
        return " or ".join(_type(part) for part in parts)
    if origin is Literal:
        return ", ".join(f"`{getattr(part, 'value', part)}`" for part in parts)
    if origin in (tuple, list):
        return f"list of {_type(parts[0])}"
    if origin in (dict, Mapping):
        return f"map to {_type(parts[1])}"
    return "text" if issubclass(annotation, Enum) else _link(annotation)


def _link(model: type[BaseModel]) -> str:
    return f"[{name_of(model)}](#{name_of(model).lower()})"


def markdown(text: str) -> str:
    """Return a docstring's text as Markdown."""
    text = text.replace("|", "\\|").replace("``", "`").replace("`None`", "`null`")
    text = text.replace("`True`", "`true`").replace("`False`", "`false`")
    return re.sub(r"(?<![\w*])\*(\w+)\*(?![\w*])", r"`\1`", text)


if __name__ == "__main__":
    main()
