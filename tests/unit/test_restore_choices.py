"""Choices of a restore, and effects that refuse it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.plan_model import PlanFinding, RestorePlan, Verdict
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError, RestoreRefusedError, RestoreUnknownError
from airflow_provider_ha.jobs.graph_store import differences
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph, Target
from airflow_provider_ha.jobs.model import StartKind, StartPoint
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.restore import choices
from airflow_provider_ha.jobs.restore.choices import _Brokers, restore_choices
from airflow_provider_ha.jobs.restore.job_restore import require_accepted
from airflow_provider_ha.jobs.submit import preconditions
from airflow_provider_ha.jobs.submit.preconditions import same_start
from airflow_provider_ha.jobs.submit.requests import named_directories


CUT = {
    "table": QueryCut(batch=3, sink=QuerySink(kind=SinkKind.OTHER, format="delta")),
    "files": QueryCut(batch=3, sink=QuerySink(kind=SinkKind.FILE, format="json")),
}


def request(**values: Any) -> RestoreRequest:
    return RestoreRequest(job_id="flights", request_id="r", **values)


def choose(**values: Any) -> Any:
    chosen: Any = SimpleNamespace(queries=CUT)
    return restore_choices(request(**values), chosen, job_id="flights", source_job="flights")


@pytest.mark.parametrize(
    "named",
    [
        {"kafka_bootstrap": {"views": "broker:9092"}},
        {"accept_unverified": frozenset({"views"})},
        {"reset_query_ids": frozenset({"views"})},
    ],
    ids=lambda named: str(next(iter(named))),
)
def test_a_query_that_the_cut_lacks_is_listed_with_the_queries_of_the_cut(named: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigurationError, match=r"names \['views'\].* \['files', 'table'\].*Correct the name"
    ) as caught:
        choose(**named)

    assert next(iter(named)) in str(caught.value)


def test_a_fresh_query_id_is_for_a_table_which_alone_remembers_ids() -> None:
    assert list(choose(reset_query_ids=frozenset({"table"})).reset_query_ids) == ["table"]
    with pytest.raises(ConfigurationError, match=r"'files' writes to a json sink.*Leave it out"):
        choose(reset_query_ids=frozenset({"files", "table"}))


class Graphs:
    """The graph that wrote the cut, or none that can be read."""

    def __init__(self, options: HaOptions | None) -> None:
        self._options = options

    def read_graph(self, blob: object) -> Any:
        if self._options is None:
            raise RecordCorruptError("the graph is not what was written")
        return SimpleNamespace(options=self._options)


def asked(
    monkeypatch: pytest.MonkeyPatch, graph: HaOptions | None, noted: str = "", **values: Any
) -> tuple[str, Path | None]:
    """Return which brokers are asked about query ``table``, and by which properties."""
    found: list[tuple[str, Path | None]] = []

    def ask(servers: str, topics: frozenset[str], *, properties: Path | None) -> dict[Any, Any]:
        found.append((servers, properties))
        return {}

    monkeypatch.setattr(choices, "held_offsets", ask)
    source: Any = SimpleNamespace(graphs=Graphs(graph))
    sources = QuerySources(brokers=noted)
    cut = QueryCut(batch=1, sink=QuerySink(kind=SinkKind.OTHER), sources=sources)
    chosen: Any = SimpleNamespace(graph="0" * 64, queries={"table": cut})
    _Brokers(source, request(**values), chosen).held("table", frozenset({"flights"}))
    return found[0]


OF_GRAPH = HaOptions(kafka_bootstrap={"table": "graph:9092"}, kafka_properties="/graph.properties")
OF_OPTIONS = HaOptions(kafka_bootstrap={"table": "options:9092"}, kafka_properties="/options.properties")


def test_brokers_come_from_the_request_then_from_its_options_then_from_the_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named: dict[str, Any] = {
        "kafka_bootstrap": {"table": "request:9092"},
        "kafka_properties": "/request.properties",
    }

    assert asked(monkeypatch, OF_GRAPH, options=OF_OPTIONS, **named) == ("request:9092", Path("/request.properties"))
    assert asked(monkeypatch, OF_GRAPH, options=OF_OPTIONS) == ("options:9092", Path("/options.properties"))
    assert asked(monkeypatch, OF_GRAPH, options=HaOptions()) == ("graph:9092", Path("/graph.properties"))
    assert asked(monkeypatch, OF_GRAPH, "script:9092") == ("graph:9092", Path("/graph.properties"))
    assert asked(monkeypatch, HaOptions(), "script:9092") == ("script:9092", None), "as the driver has noted them"


@pytest.mark.parametrize("graph", [HaOptions(), None], ids=["says none", "cannot be read"])
def test_brokers_that_are_not_configured_are_asked_for_by_their_option(
    monkeypatch: pytest.MonkeyPatch, graph: HaOptions | None
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"flights for query 'table' are not configured.*--kafka-bootstrap table="
    ):
        asked(monkeypatch, graph)


def test_brokers_of_the_request_are_asked_although_the_graph_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, None, kafka_bootstrap={"table": "request:9092"}) == ("request:9092", None)


def test_directories_by_query_are_taken_as_they_are() -> None:
    given = {"table": "/a/elsewhere"}

    assert named_directories(given) == given
    assert named_directories("/a/table") == {"table": "/a/table"}
    assert named_directories("latest") == {}


@pytest.mark.parametrize(
    ("start_from", "same"),
    [
        ({"table": "/a/table", "files": "/b"}, True),
        ({"files": "file:///b", "table": "/a/x/../table"}, True),
        ({"table": "/a/table"}, False),
        ({"table": "/b", "files": "/a/table"}, False),
        ("/a/table", False),
    ],
)
def test_a_start_from_directories_is_the_same_by_query_and_place(start_from: Any, same: bool) -> None:
    start = StartPoint(kind=StartKind.PATH, source_id="files=/b, table=/a/table")

    assert same_start(start_from, start, "flights") is same


def test_a_lost_run_whose_graph_cannot_be_read_differs_in_all_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: object) -> Any:
        raise RecordCorruptError("blob 0 is damaged")

    monkeypatch.setattr(preconditions, "describe", lambda *_: None)
    job: Any = SimpleNamespace(graph=unreadable, job_id="flights")
    lost: Any = SimpleNamespace(run=SimpleNamespace(graph="g", start=StartPoint()))
    wanted = JobSpec(job_id="flights", request_id="r", application="app.py")

    (told,) = preconditions._differences(job, wanted, lost)

    assert told == "unknown fields, because its graph cannot be read (blob 0 is damaged)"


def test_other_options_of_the_connection_are_no_difference_of_the_job() -> None:
    graph = JobGraph(
        job_id="f", name="f", application=Artifact(name="a.py", blob=Blob(sha256="0" * 64, size=1)), target=Target()
    )
    elsewhere = graph.model_copy(update={"target": Target(cluster_options={"config_file": "/etc/new.json"})})
    own = graph.model_copy(update={"target": Target(engine_options={"config_file": "/etc/new.json"})})

    assert differences(graph, elsewhere) == ()
    assert differences(graph, own) == ("target",)


@pytest.mark.parametrize(
    "said", [{"repeatable": ("Flattened Orders",)}, {"options": HaOptions(repeatable=("Flattened Orders",))}]
)
def test_a_query_is_declared_repeatable_by_the_name_that_its_script_has(said: dict[str, Any]) -> None:
    assert choose(**said).repeatable == {"Flattened~20Orders"}


EVERYTHING = frozenset(Verdict)


def plan(verdict: Verdict, *, unknown: dict[str, tuple[str, ...]]) -> RestorePlan:
    return RestorePlan(
        job_id="j",
        source_job="j",
        source="checkpoint",
        source_id="1",
        directory="pin",
        verdict=verdict,
        queries={},
        age_seconds=0,
        created_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
        findings=(PlanFinding(query="q", verdict=verdict, reason="q: not known: no broker answered"),),
        unknown=unknown,
    )


def test_what_is_not_known_stops_a_restore_that_allows_everything() -> None:
    with pytest.raises(RestoreUnknownError, match="no broker answered") as caught:
        require_accepted(plan(Verdict.LOSS_POSSIBLE, unknown={"q": ("no broker answered",)}), EVERYTHING)

    assert "accept_unverified=q" in caught.value.next_step


def test_who_named_its_query_may_allow_the_loss() -> None:
    named = plan(Verdict.LOSS_POSSIBLE, unknown={})

    require_accepted(named, EVERYTHING)
    with pytest.raises(RestoreRefusedError, match="LOSS_POSSIBLE"):
        require_accepted(named, frozenset({Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE}))


def test_an_impossible_restore_is_reported_as_impossible() -> None:
    with pytest.raises(RestoreRefusedError, match="IMPOSSIBLE"):
        require_accepted(plan(Verdict.IMPOSSIBLE, unknown={"q": ("no broker answered",)}), EVERYTHING)
