"""Names of queries and short names, and records that are read again."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.cli.savepoint_target import by_query, places_of
from airflow_provider_ha.cli.spec_options import adopted
from airflow_provider_ha.cli.spec_options import by_query as brokers_by_query
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import named_directories
from airflow_provider_ha.names import check_name, safe_segment, short_name
from airflow_provider_ha.query_names import QueryDirectory, is_query_directory, own_name, query_directory, shown
from airflow_provider_ha.records import Record
from tests.support.clusters.record_samples import record_types, sample


PLAIN = ["orders", "Orders", "a", "q-1", "counts_by.day", "1", "x" * 128]
ODD = [
    "Flattened Orders",
    " ",
    " orders",
    "orders ",
    "a/b",
    "/",
    "..",
    ".",
    "a..b",
    ".hidden",
    "_ha_base",
    "a.",
    "-a",
    "sinks",
    "manifest.json",
    "Заказы",
    "注文",
    "é",
    "e\u0301",
    "\ud800",
    "a\x00b",
    "a\nb",
    "a:b",
    "a%20b",
    "a~20b",
    "a~b",
    "~",
    "Flattened~20Orders",
    "q\"uo'te",
    "<b>",
    "x" * 129,
    "x" * 128 + " ",
    "é" * 500,
    "é" * 501,
]


@pytest.mark.parametrize("name", PLAIN)
def test_a_safe_name_stays_as_it_is(name: str) -> None:
    assert query_directory(name) == name


@pytest.mark.parametrize("name", PLAIN + ODD)
def test_every_name_is_written_safely_and_in_the_same_way_at_every_start(name: str) -> None:
    written = query_directory(name)

    assert written == query_directory(name) == query_directory(written)
    assert is_query_directory(str(written))
    assert len(written.encode()) <= 160
    assert written.isascii()
    assert written.isprintable()
    assert not set(written) & set(" /\\:*?\"'<>|%#")
    assert ".." not in written
    assert written[0] not in "._-"
    assert written not in {"sinks", "manifest.json"}


def test_two_names_are_never_written_alike() -> None:
    rng = random.Random(7)
    some = ["".join(rng.choices("ab .~/2E0é", k=rng.randint(1, 6))) for _ in range(20_000)]
    names = set(some) | set(PLAIN) | set(ODD)
    names |= {str(query_directory(name)) for name in itertools.islice(sorted(names), 5000)}  # as another is written

    assert len({query_directory(name) for name in names}) == len(names)


@pytest.mark.parametrize("name", [name for name in PLAIN + ODD if len(name) <= 128 and name != "\ud800"])
def test_its_own_name_is_shown(name: str) -> None:
    assert own_name(query_directory(name)) == name


def test_of_a_very_long_name_its_beginning_is_shown() -> None:
    assert own_name(query_directory("é" * 500)) == "é" * 16 + "…"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("query 'Flattened~20Orders' failed", "query 'Flattened Orders' failed"),
        ("waiting for Flattened~20Orders.", "waiting for Flattened Orders."),
        ("Flattened~20Orders", "Flattened Orders"),
        ("['a', 'b~20c']: 2", "['a', 'b c']: 2"),
        ("/data/live/e1/Flattened~20Orders is gone", "/data/live/e1/Flattened~20Orders is gone"),
        ("Flattened~20Orders/offsets/3", "Flattened~20Orders/offsets/3"),
        ("home ~20 and a~b and a~zz", "home   and a~b and a~zz"),
        ("a~41b is not how anything is written", "a~41b is not how anything is written"),
    ],
)
def test_a_text_names_queries_as_their_script_does_and_paths_as_they_are(text: str, read: str) -> None:
    assert shown(text) == read


def test_what_is_written_already_is_not_written_again() -> None:
    assert query_directory(QueryDirectory("a~20b")) == "a~20b"
    assert query_directory("a~20b") == "a~7E20b"


class Named(View):
    """A view with queries in every place."""

    query: str
    queries: dict[str, int]
    reason: str
    path: str
    rows: tuple[str, ...]


def test_a_view_names_queries_as_their_script_does() -> None:
    written = query_directory("Flattened Orders")
    view = Named(
        query=str(written),
        queries={str(written): 3, "plain": 4},
        reason=f"query {str(written)!r} failed",
        path=f"/data/{written}",
        rows=(str(written), "plain"),
    )

    assert view.to_json() == {
        "query": "Flattened Orders",
        "queries": {"Flattened Orders": 3, "plain": 4},
        "reason": "query 'Flattened Orders' failed",
        "path": "/data/Flattened~20Orders",
        "rows": ["Flattened Orders", "plain"],
    }


def test_an_error_names_queries_as_their_script_does() -> None:
    error = ConfigurationError("query 'Flattened~20Orders' has no sink", next_step="Name it (--sink a~2Fb=PATH)")

    assert str(error) == "query 'Flattened Orders' has no sink. Name it (--sink a/b=PATH)."


def test_a_request_takes_the_names_of_the_script_once() -> None:
    request = RestoreRequest(
        job_id="j",
        request_id="r",
        adopt={"Flattened Orders": "/cp/Flattened Orders"},
        sinks={"Flattened Orders": "/out"},
        kafka_bootstrap={"a/b": "host:1"},
        accept_unverified=frozenset({"a/b"}),
    )

    again = replace(request, request_id="s")

    assert dict(again.adopt) == {"Flattened~20Orders": "/cp/Flattened Orders"}
    assert dict(again.sinks) == {"Flattened~20Orders": "/out"}
    assert dict(again.kafka_bootstrap) == {"a~2Fb": "host:1"}
    assert sorted(again.accept_unverified) == ["a~2Fb"]


@pytest.mark.parametrize("directory", ["/cp/Flattened Orders", "/savepoints/s1/Flattened~20Orders"])
def test_a_directory_is_of_the_query_that_it_is_named_after(directory: str) -> None:
    request = RestoreRequest(job_id="j", request_id="r", adopt=named_directories(directory))

    assert dict(request.adopt) == {"Flattened~20Orders": directory}


@pytest.mark.parametrize("name", ["Flattened Orders", "a/b", "Заказы", "a=b", "date=/x", "Orders: new", "orders"])
@pytest.mark.parametrize("place", ["/cp/x", "/cp/day=1/x", "s3://bucket/x", "hdfs://name:9000/x"])
def test_options_take_the_name_of_a_query_as_its_script_has_it(name: str, place: str) -> None:
    if name == "date=/x":
        name = "date="

    assert places_of([f"{name}={place}"], "--query") == {name: place}
    assert by_query([f"{name}=12"], "--batch", [name, "other"]) == {name: "12"}
    assert brokers_by_query("--kafka-bootstrap", [f"{name}=a:1,b:2"]) == {name: "a:1,b:2"}
    assert adopted([f"{name}={place}"], [f"{name}=console"]) == ({name: place}, {name: "console"})


@pytest.mark.parametrize("place", ["/cp/day=1/x", "/cp/day=/x", "s3://bucket/a=/b", "./a=/b"])
def test_a_place_without_a_name_may_hold_an_equals_sign(place: str) -> None:
    (name,), _ = adopted([place], [])

    assert name == place.rpartition("/")[2]


@pytest.mark.parametrize("name", ["s1", "cli-savepoint-0123456789ab", "x" * 40])
def test_a_short_name_stays(name: str) -> None:
    assert short_name(name) == name


def test_a_long_name_is_cut_to_one_that_is_found_again() -> None:
    asked = safe_segment("scheduled_savepoint/scheduled__2026-11-22T19:00:00+00:00/savepoint")

    short = short_name(asked)

    assert len(short) <= 40
    assert short.startswith("scheduled_savepoint-schedul")
    assert (short, check_name(short, "savepoint id")) == (short_name(asked), short)


def test_names_that_differ_only_at_their_end_stay_apart() -> None:
    assert short_name("x" * 60 + "1") != short_name("x" * 60 + "2")


def test_a_name_that_is_cut_at_a_dash_stays_a_name() -> None:
    short = short_name("x" * 25 + "--..__" + "y" * 30)

    assert check_name(short, "savepoint id") == short
    assert "--" not in short


TYPES = record_types()


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_a_record_is_read_as_it_was_written(kind: str) -> None:
    written = sample(TYPES[kind])

    assert TYPES[kind].from_bytes(written.to_bytes(), source=kind) == written


@pytest.mark.parametrize("record", TYPES.values(), ids=lambda record: record.kind)
def test_a_newer_version_is_refused_with_its_number_and_the_next_step(record: type[Record]) -> None:
    newer = record.format_version + 1
    envelope = {"kind": record.kind, "version": newer, "checksum": "of another rule", "body": {"new": "field"}}

    with pytest.raises(RecordCorruptError, match=rf"znode /a .*version {newer} of '{record.kind}'") as caught:
        record.from_bytes(json.dumps(envelope).encode(), source="znode /a")

    assert "Upgrade" in caught.value.next_step


@pytest.mark.parametrize("version", ["2", None, 1.5, [], True])
def test_a_version_that_is_no_number_is_a_corrupt_record(version: Any) -> None:
    record = TYPES["run"]
    envelope = {"kind": "run", "version": version, "checksum": "", "body": {}}

    with pytest.raises(RecordCorruptError, match="znode /a"):
        record.from_bytes(json.dumps(envelope).encode(), source="znode /a")


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_equal_records_have_equal_bytes_sorted_and_without_spaces(kind: str) -> None:
    """Digests of manifests are of these bytes."""
    written = sample(TYPES[kind]).to_bytes()

    assert written.decode() == json.dumps(json.loads(written), sort_keys=True, separators=(",", ":"))
