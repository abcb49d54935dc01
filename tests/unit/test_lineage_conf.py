"""Conf for OpenLineage beside the conf of a job: what counts, what another request takes over, what is secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.documents.submission import graph_view
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.supervisor.spark_submit import properties, site_keys
from airflow_provider_ha.jobs.application.artifacts import FetchedApplication
from airflow_provider_ha.jobs.graph_store import differences
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.move.move_arrival import moved_graph
from airflow_provider_ha.jobs.move.move_records import MoveRequest
from airflow_provider_ha.jobs.options.conf import counted, merged, secrets_in
from tests.engine_helpers import CONFIG


PARENT = {
    "spark.openlineage.parentJobName": "dag.task",
    "spark.openlineage.parentRunId": "run-1",
    "spark.openlineage.rootParentRunId": "root-1",
}
TRANSPORT = {"spark.openlineage.transport.type": "http", "spark.openlineage.transport.url": "http://lineage:5000"}
OF_TRY_2 = PARENT | {"spark.openlineage.parentRunId": "run-2"}


def a_graph(**fields: object) -> JobGraph:
    application = Artifact(name="main.py", blob=Blob(sha256="0" * 64, size=1))
    return JobGraph.model_validate({"job_id": "flights", "name": "flights", "application": application, **fields})


def conf_of(graph: JobGraph, site: tuple[str, ...] = ()) -> dict[str, str]:
    application = FetchedApplication(script=Path("/home/app/main.py"), files_directory=Path("/home/files"))
    return properties(graph, application, CONFIG, site=site)


def test_a_driver_gets_the_lineage_beside_its_conf() -> None:
    graph = a_graph(conf={"spark.sql.shuffle.partitions": "8"}, lineage=PARENT | TRANSPORT)

    values = conf_of(graph)

    assert {**graph.conf, **PARENT, **TRANSPORT}.items() <= values.items()


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("spark.openlineage.parentRunId", TRANSPORT),
        ("spark.openlineage.rootParentRunId", TRANSPORT),
        ("spark.openlineage.transport.auth.apiKey", PARENT),
        ("spark.openlineage.namespace", PARENT | TRANSPORT),
    ],
)
def test_what_the_user_or_the_site_sets_itself_takes_the_place_of_the_whole_group(
    given: str, left: dict[str, str]
) -> None:
    """Half of ours beside half of theirs would send their key to our address."""
    graph = a_graph(conf={given: "theirs"}, lineage=PARENT | TRANSPORT)
    site = a_graph(lineage=PARENT | TRANSPORT)

    lineage = {key: value for key, value in conf_of(graph).items() if key in PARENT | TRANSPORT and key != given}
    below_site = {key for key in conf_of(site, (given,)) if key in PARENT | TRANSPORT}

    assert lineage == {key: value for key, value in left.items() if key != given}
    assert conf_of(graph)[given] == "theirs"
    assert below_site == left.keys()


def test_the_keys_of_the_site_are_read_where_the_driver_reads_them(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.openlineage.transport.type console\n")

    assert site_keys(tmp_path, {}) == ["spark.openlineage.transport.type"]
    assert site_keys(tmp_path / "elsewhere", {}) == []


def test_another_try_of_a_task_asks_for_the_same_job() -> None:
    """Each try has another run id; a job that has lost its driver is the same one all the same."""
    of_try_1, of_try_2, without = a_graph(lineage=PARENT), a_graph(lineage=OF_TRY_2), a_graph()

    assert differences(of_try_1, of_try_2) == ()
    assert differences(of_try_1, without) == ()
    assert differences(of_try_1, a_graph(conf=OF_TRY_2)) != (), "what the user sets is the user's"


def test_a_run_of_another_request_has_its_own_parent_or_none_and_keeps_the_transport() -> None:
    old = PARENT | TRANSPORT
    elsewhere = {"spark.openlineage.transport.type": "console"}

    assert merged(old, {}) == TRANSPORT
    assert merged(old, OF_TRY_2) == TRANSPORT | OF_TRY_2
    assert merged(old, elsewhere) == elsewhere, "nothing of the old address is left"


def test_a_move_names_its_own_task() -> None:
    graph = a_graph(lineage=PARENT | TRANSPORT)

    by_hand = moved_graph(graph, MoveRequest(requested_by="shell"), CONFIG, Engines.of(CONFIG))
    by_task = moved_graph(graph, MoveRequest(requested_by="task", lineage=OF_TRY_2), CONFIG, Engines.of(CONFIG))

    assert by_hand.lineage == TRANSPORT
    assert by_task.lineage == TRANSPORT | OF_TRY_2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auth.apiKey", "k"),
        ("auth.type", "api_key"),
        ("headers.X-Team", "k"),
        ("transports.main.auth.apiKey", "k"),
        ("transports.main.headers.Authorization", "k"),
        ("url", "https://user:word@lineage:5000"),
        ("endpoint", "api/v1/lineage?code=k"),
    ],
)
def test_keys_headers_and_logins_of_a_transport_are_secrets(key: str, value: str) -> None:
    name = f"spark.openlineage.transport.{key}"

    assert secrets_in({**TRANSPORT, **PARENT, name: value}) == (name,)
    assert secrets_in(TRANSPORT | PARENT) == ()


def test_the_graph_shows_which_keys_a_driver_gets() -> None:
    graph = a_graph(conf={"spark.openlineage.parentRunId": "own"}, lineage=PARENT | TRANSPORT)

    shown = graph_view(graph, sha256="0" * 64, pointer=None, site_conf=None)

    assert shown.conf_keys == ("spark.openlineage.parentRunId", *TRANSPORT)


def test_what_is_injected_is_counted_all_or_nothing() -> None:
    assert counted(PARENT | TRANSPORT, ()) == PARENT | TRANSPORT
