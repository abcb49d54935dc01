"""A type of sink that this package does not know: its output remembers queries in one file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import Conf, QueryMemory, RestoreFindings, SinkCase, SinkType
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.errors import ConfigurationError


@dataclass
class Ledger(QueryMemory):
    """An output that remembers queries in one JSON file: id -> highest batch."""

    path: Path

    def exists(self) -> bool:
        return self.path.exists()

    def last_batch(self, query_id: str) -> int:
        batches: dict[str, int] = json.loads(self.path.read_text()) if self.exists() else {}
        return batches.get(query_id, -1)


class LedgerSink(SinkType):
    """The type that writes to it."""

    table = "ledger"

    def takes(self, source: str) -> bool:
        return source == "ledger"

    def sink(self, source: str, path: str | None) -> QuerySink:
        if path is not None and path.startswith("s3"):
            raise ConfigurationError("a ledger is not read on S3", next_step="Mount it")
        return QuerySink(kind=SinkKind.OTHER, format=source, table=path)

    def name(self, source: str, path: str | None) -> str | None:
        return f"{source}:{path}"

    def named(self, said: str, reach: StorageAccess) -> QuerySink | None:
        return self.sink("ledger", said.removeprefix("ledger:")) if said.startswith("ledger:") else None

    def refusal(self, path: str, conf: Conf) -> tuple[str, str] | None:
        return None if conf("ledger.locked") else (f"writes to {path} without a lock", "Set ledger.locked")

    def memory(self, sink: QuerySink, reach: StorageAccess) -> Ledger | None:
        return Ledger(Path(sink.table)) if sink.table is not None else None

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        if case.top is not None and case.is_known and case.state.reached > case.top and not case.has_fresh_id:
            findings.add(Verdict.IMPOSSIBLE, f"the ledger {sink.table} would skip batch {case.state.reached}")
        return {}
