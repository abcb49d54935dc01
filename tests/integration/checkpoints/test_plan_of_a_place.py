"""``spark-ha checkpoint plan`` of a directory or a prefix of S3: one plan wherever it lies, and what is not known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from tests.docs.blocks import blocks_of
from tests.support.checkpoints.portable_helpers import QUERY, changed_at, checkpoint, reading_files
from tests.support.s3.s3_checkpoints import put_directory
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, noted, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.corpus import SHORT_SHAPES, checkpoint_copy


pytestmark = pytest.mark.timeout(300)
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "s3.md"
YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64
Plan = Callable[..., tuple[int, Any]]


@pytest.fixture
def plan(s3: S3Access) -> Plan:
    """Call the command as a user does who has said in the environment where S3 is."""

    def call(*words: str, endpoint: str | None = None) -> tuple[int, Any]:
        environment = {
            "AWS_ENDPOINT_URL": endpoint or s3.endpoint,
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        }
        done = CliRunner(env=environment).invoke(app, ["checkpoint", "plan", *words, "--json"], obj=ClusterTarget())
        return done.exit_code, json.loads(done.stdout)

    return call


@pytest.fixture
def read_on_s3(s3: S3Access, bucket: str, tmp_path: Path) -> str:
    """The URI of a checkpoint of batches 0 to 2, each of which has read an object of the bucket."""
    for number in range(3):
        s3.client().put_object(Bucket=bucket, Key=f"in/a {number}.json", Body=b"{}")
    inputs = [
        (f"s3a://{bucket}/in/a%20{number}.json", s3.changed_at(bucket, f"in/a {number}.json")) for number in range(3)
    ]
    put_directory(s3, bucket, "q", reading_files(tmp_path / "q", inputs))
    return f"s3://{bucket}/q"


def sink_log(s3: S3Access, bucket: str, place: Path, batches: int) -> str:
    """Make a file sink's log on S3, with data beside it, and return the URI of the output."""
    (place / LOG).mkdir(parents=True)
    for batch in range(batches):
        (place / LOG / str(batch)).write_text("v1")
    put_directory(s3, bucket, "out", place)
    s3.client().put_object(Bucket=bucket, Key="out/part-0.json", Body=b"{}")
    return f"s3://{bucket}/out"


@pytest.fixture
def short_sink(s3: S3Access, bucket: str, tmp_path: Path) -> str:
    """The URI of an output that has batch 0."""
    return sink_log(s3, bucket, tmp_path / "out", 1)


def without_places(document: Any) -> Any:
    """Return a plan without what differs between two places of one checkpoint, or from one moment to the next."""
    queries = {
        name: {**query, "sink": {**query["sink"], "path": None}, "name_by_sink": None}
        for name, query in document["queries"].items()
    }
    left_out = {"source_id", "directory", "adopted", "age_seconds", "created_at", "queries"}
    return {key: value for key, value in document.items() if key not in left_out} | {"queries": queries}


def test_a_directory_and_its_copy_on_s3_have_one_plan(s3: S3Access, bucket: str, plan: Plan, tmp_path: Path) -> None:
    inputs = [str(tmp_path / f"{number}.json") for number in range(3)]
    for path in inputs:
        Path(path).touch()
    here = reading_files(tmp_path / "q", [(path, changed_at(Path(path))) for path in inputs])
    out = sink_log(s3, bucket, tmp_path / "out", 3)
    put_directory(s3, bucket, "q", here)

    local = plan(str(here), "--batch", "0", "--sinks", str(tmp_path / "out"))
    code, document = plan(f"s3a://{bucket}/q", "--batch", "0", "--sinks", out)

    assert (code, document["verdict"], document["candidates"][0]["accepted"]) == (YES, "SAFE", True)
    query = document["queries"]["q"]
    assert (query["batch"], query["replay"], query["sink"]["max_batch"]) == (0, [1, 2], 2)
    assert [(source["amount"], source["unit"], source["gone"]) for source in query["inputs"]] == [(2, "files", 0)]
    assert document["age_seconds"] > 0
    assert (local[0], without_places(local[1])) == (code, without_places(document))


def test_a_restore_of_a_place_names_the_plan_of_a_place(tmp_path: Path) -> None:
    place = str(checkpoint(tmp_path / "q", range(3)))

    refused = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["job", "restore", place], obj=ClusterTarget())

    assert refused.exit_code == WRONG_CALL
    assert "spark-ha job restore JOB --start-from PATH" in refused.output
    assert "spark-ha checkpoint plan PATH" in refused.output


def test_a_plan_of_a_job_names_the_restore_of_a_job(plan: Plan) -> None:
    code, document = plan("orders")

    assert (code, document["error"]["type"]) == (WRONG_CALL, "ConfigurationError")
    assert "spark-ha job restore orders --dry-run" in document["error"]["next_step"]


def test_the_newest_batch_is_the_cut_and_the_command_of_the_page_says_so(
    s3: S3Access, bucket: str, plan: Plan, read_on_s3: str, tmp_path: Path
) -> None:
    out = sink_log(s3, bucket, tmp_path / "out", 3)
    (block,) = (block for block in blocks_of(PAGE) if "checkpoint plan" in block.text)
    places = {"s3://bucket/checkpoint": read_on_s3, "s3://bucket/output": out}

    code, document = plan(*(places.get(word, word) for word in block.text.split()[3:]))

    assert (code, document["verdict"]) == (YES, "SAFE")
    assert (document["queries"]["q"]["batch"], document["queries"]["q"]["replay"]) == (2, [])


@pytest.mark.parametrize(
    ("where", "verdict"), [("out", "LOSS_POSSIBLE"), ("gone", "IMPOSSIBLE")], ids=["behind", "gone"]
)
def test_a_sink_on_s3_that_is_behind_or_gone_is_no(
    where: str, verdict: str, plan: Plan, read_on_s3: str, short_sink: str
) -> None:
    code, document = plan(read_on_s3, "--sinks", short_sink.replace("/out", f"/{where}"))

    assert (code, document["verdict"]) == (NO, verdict)
    assert document["findings"][0]["ways_out"]


def test_of_a_sink_only_the_log_is_listed(
    s3: S3Access, bucket: str, plan: Plan, read_on_s3: str, tmp_path: Path
) -> None:
    out = sink_log(s3, bucket, tmp_path / "out", 3)
    listed: list[str] = []

    with s3_proxy(s3.endpoint, noted(listed, "prefix=out")) as endpoint:
        plan(read_on_s3, "--sinks", out, endpoint=endpoint)

    assert listed
    assert [path for path in listed if "prefix=out%2F_spark_metadata%2F" not in path] == []


def test_an_input_on_s3_that_is_gone_is_told_and_only_what_is_read_again_is_asked_for(
    s3: S3Access, bucket: str, plan: Plan, read_on_s3: str
) -> None:
    for number in (0, 2):
        s3.client().delete_object(Bucket=bucket, Key=f"in/a {number}.json")
    s3.client().put_object(Bucket=bucket, Key="in/a 2.json.bak", Body=b"{}")  # is not the file

    asked: list[str] = []
    with s3_proxy(s3.endpoint, noted(asked, "prefix=in")) as endpoint:
        code, document = plan(read_on_s3, "--batch", "1", "--sinks", "noop", endpoint=endpoint)

    assert (code, document["verdict"]) == (NO, "IMPOSSIBLE")
    assert "a%202.json is gone" in document["reasons"][0]
    assert document["queries"]["q"]["inputs"][0]["gone"] == 1
    assert len(asked) == 1


@pytest.mark.parametrize("what", ["prefix=in", "prefix=out", "prefix=q", "/q/offsets/2", "/q/commits/2"])
def test_what_was_refused_is_unknown(what: str, s3: S3Access, plan: Plan, read_on_s3: str, short_sink: str) -> None:
    words = (read_on_s3, "--sinks", short_sink, *(("--batch", "1") if what == "prefix=in" else ()))

    with s3_proxy(s3.endpoint, Fault(refuse(403, "AccessDenied"), "GET", what, times=FOR_EVER)) as endpoint:
        code, document = plan(*words, endpoint=endpoint)

    assert code == UNKNOWN
    if what == "prefix=in":
        assert document["unknown"]["q"]
        assert document["queries"]["q"]["inputs"][0]["gone"] is None
        assert "IMPOSSIBLE" not in document["verdict"]
    else:
        assert "could not be" in document["error"]["message"] or "cannot read" in document["error"]["message"]


def test_a_batch_whose_state_was_refused_is_not_passed_over_for_an_older_one(
    s3: S3Access, bucket: str, plan: Plan, tmp_path: Path
) -> None:
    put_directory(s3, bucket, "q", checkpoint_copy("hdfs-zstd", tmp_path / "q"))
    newest = f"/q/state/0/0/{SHORT_SHAPES['hdfs-zstd']}.delta"

    with s3_proxy(s3.endpoint, Fault(refuse(403, "AccessDenied"), "GET", newest, times=FOR_EVER)) as endpoint:
        code, document = plan(f"s3://{bucket}/q", "--sinks", "noop", endpoint=endpoint)

    assert code == UNKNOWN
    assert "could not be read: state/0/0/3.delta" in document["error"]["message"]


def test_a_batch_that_is_damaged_is_passed_over_with_its_reason(
    s3: S3Access, bucket: str, plan: Plan, read_on_s3: str
) -> None:
    s3.client().put_object(Bucket=bucket, Key="q/commits/2", Body=b"")

    code, document = plan(read_on_s3, "--sinks", "noop")

    assert code == YES
    assert [(item["source"], item["accepted"]) for item in document["candidates"]] == [
        ("batch-2", False),
        ("batch-1", True),
    ]
    assert document["candidates"][0]["file"] == "commits/2"
    assert (document["queries"]["q"]["batch"], document["queries"]["q"]["replay"]) == (1, [2])
    code, document = plan(read_on_s3, "--batch", "2")
    assert (code, document["error"]["type"]) == (NO, "CheckpointMissingError")
    assert plan(read_on_s3, "--batch", "7")[0] == NO


def test_a_query_that_goes_on_meanwhile_is_refused(s3: S3Access, bucket: str, plan: Plan, read_on_s3: str) -> None:
    def go_on(exchange: Exchange) -> None:
        s3.client().put_object(Bucket=bucket, Key="q/offsets/3", Body=b"v1\n{}\n-")
        exchange.forward()

    with s3_proxy(s3.endpoint, Fault(go_on, "GET", "/q/commits/2")) as endpoint:
        code, document = plan(read_on_s3, endpoint=endpoint)

    assert (code, document["error"]["type"]) == (NO, "JobStateError")


def test_brokers_that_nobody_named_are_unknown_until_nobody_minds(
    s3: S3Access, bucket: str, plan: Plan, tmp_path: Path
) -> None:
    put_directory(s3, bucket, QUERY, checkpoint(tmp_path / QUERY))

    code, document = plan(f"s3://{bucket}/{QUERY}", "--sinks", "noop")
    assert (code, list(document["unknown"])) == (UNKNOWN, [QUERY])
    assert any("--kafka-bootstrap" in way for way in document["findings"][0]["ways_out"])

    words = ("--sinks", "noop", "--accept-unverified", QUERY, "--accept-verdicts", "LOSS_POSSIBLE")
    assert plan(f"s3://{bucket}/{QUERY}", *words)[0] == YES


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("./q --accept-unverified other", "the query is q"),
        ("./q --sinks a --sinks b", "2 times"),
        ("orders --batch 3", "is a job id"),
    ],
)
def test_an_option_of_the_other_kind_is_refused(words: str, reason: str, plan: Plan) -> None:
    code, document = plan(*words.split())

    assert (code, document["error"]["type"]) == (WRONG_CALL, "ConfigurationError")
    assert reason in document["error"]["message"]


def test_people_read_the_same_sections(s3: S3Access, read_on_s3: str) -> None:
    environment = {
        "COLUMNS": "300",
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }
    words = ["checkpoint", "plan", read_on_s3, "--batch", "1", "--sinks", "noop"]
    done = CliRunner(env=environment).invoke(app, words, obj=ClusterTarget())

    assert done.exit_code == YES, done.output
    assert f"{read_on_s3}\n" in done.stdout.replace("  ", "")
    for word in ("taken", "SAFE", "REPLAYED", "READ AGAIN", "SINK HAS", "CANDIDATE", "batch-1", "chosen"):
        assert word in done.stdout
