"""``spark-ha checkpoint diff`` where a side lies on S3: the answers of a directory, for only the reads they take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.format.closure import closure
from airflow_provider_ha.checkpoints.savepoints.layout import SavepointSource
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Place, Pool
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import Target
from airflow_provider_ha.errors import CheckpointMissingError
from tests.docs.blocks import blocks_of
from tests.support.s3.pools import take
from tests.support.s3.s3_checkpoints import noting_proxy, put_directory, tree
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.corpus import SHORT_SHAPES, checkpoint_copy


pytestmark = pytest.mark.timeout(300)
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "s3.md"
SAME, DIFFERENT, UNREAD = 0, 1, 2
SHAPE = "hdfs-zstd"
LAST = SHORT_SHAPES[SHAPE] - 1
Diff = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real checkpoint whose state files have names that say nothing about their bytes."""
    return checkpoint_copy(SHAPE, tmp_path_factory.mktemp("real") / "q")


@pytest.fixture(scope="module")
def bucket(s3: S3Access, state: Path) -> str:
    """A bucket with that checkpoint below ``q``, and a savepoint of it. Only read."""
    bucket = s3.new_bucket()
    put_directory(s3, bucket, "q", state)
    take(
        Pool(Place(bucket, "savepoints/"), s3.options()),
        "one",
        [SavepointSource(query="q", directory=Place(bucket, "q/"))],
        holder="a test",
    )
    return bucket


@pytest.fixture
def diff(s3: S3Access) -> Diff:
    """Call the command as a user does who has said in the environment where S3 is."""

    def call(*words: str, endpoint: str | None = None) -> tuple[int, Any]:
        environment = {
            "AWS_ENDPOINT_URL": endpoint or s3.endpoint,
            "AWS_ACCESS_KEY_ID": s3.access_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        }
        done = CliRunner(env=environment).invoke(app, ["checkpoint", "diff", *words, "--json"], obj=Target())
        return done.exit_code, json.loads(done.stdout)

    return call


def test_a_directory_and_its_copy_on_s3_are_the_same(diff: Diff, state: Path, bucket: str) -> None:
    code, document = diff(str(state), f"s3a://{bucket}/q")

    (found,) = document["queries"].values()
    assert code == SAME
    assert found["state"]["shared"] > 0
    assert found["b"]["directory"] == f"s3://{bucket}/q"


def test_two_batches_of_one_prefix_are_compared_after_one_listing(s3: S3Access, diff: Diff, bucket: str) -> None:
    with noting_proxy(s3.endpoint) as (endpoint, asked):
        uri, batches = f"s3://{bucket}/q", (str(LAST - 1), str(LAST))
        code, document = diff(uri, "--batch", batches[0], "--batch", batches[1], endpoint=endpoint)

    assert code == DIFFERENT
    assert {"what": "batch", "a": LAST - 1, "b": LAST} in document["queries"]["q"]["values"]
    assert asked.lists == 1


def test_a_savepoint_and_what_it_was_taken_of_are_the_same_and_no_state_is_read(
    s3: S3Access, diff: Diff, bucket: str
) -> None:
    (block,) = (block for block in blocks_of(PAGE) if "checkpoint diff" in block.text)
    places = {"s3://bucket/savepoints/before-upgrade": "savepoints/one", "s3://bucket/checkpoint": "q"}
    words = [f"s3://{bucket}/{places[word]}" for word in block.text.split()[3:]]

    with noting_proxy(s3.endpoint) as (endpoint, asked):
        code, document = diff(*words, endpoint=endpoint)

    assert code == SAME
    assert document["queries"]["q"]["state"]["shared"] > 0
    assert [key for key in asked.reads if key.endswith((".delta", ".snapshot"))] == []
    assert len(asked.reads) == len(set(asked.reads))


def test_a_state_file_of_one_name_and_size_with_other_bytes_is_found_on_either_side(
    s3: S3Access, diff: Diff, state: Path
) -> None:
    changed = s3.new_bucket()
    put_directory(s3, changed, "q", state)
    name = f"state/0/0/{LAST + 1}.delta"
    s3.client().put_object(Bucket=changed, Key=f"q/{name}", Body=bytes(len((state / name).read_bytes())))

    for sides in ((str(state), f"s3://{changed}/q"), (f"s3://{changed}/q", str(state))):
        code, document = diff(*sides)
        (found,) = document["queries"].values()
        assert code == DIFFERENT
        assert list(found["state"]["changed"]) == [name]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(("GET", "list-type=2"), id="listing"),
        pytest.param(("GET", f"/q/offsets/{LAST}"), id="log"),
        pytest.param(("GET", ".delta"), id="state"),
        pytest.param(("GET", "_manifests/"), id="manifest"),
    ],
)
def test_what_was_refused_is_unknown_and_never_different(
    fault: tuple[str, str], s3: S3Access, diff: Diff, state: Path, bucket: str
) -> None:
    refused = Fault(refuse(403, "AccessDenied"), *fault, times=FOR_EVER)

    with s3_proxy(s3.endpoint, refused) as endpoint:
        code, document = diff(str(state), f"s3://{bucket}/q", endpoint=endpoint)

    assert code == UNREAD
    assert document["error"]["type"] in ("StorageUnavailableError", "UnreadableError")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("nowhere", "nothing lies below it"),
        ("savepoints/two", "nothing lies below it"),
        ("savepoints", "has no committed batch"),
    ],
)
def test_what_is_not_there_is_unknown(place: str, reason: str, diff: Diff, bucket: str) -> None:
    code, document = diff(f"s3://{bucket}/q", f"s3://{bucket}/{place}")

    assert code == UNREAD
    assert f"{place} " in document["error"]["message"]
    assert reason in document["error"]["message"]


def test_a_savepoint_has_one_batch_only(diff: Diff, bucket: str) -> None:
    code, document = diff(f"s3://{bucket}/q", f"s3://{bucket}/savepoints/one", "--batch", "1")

    assert code == UNREAD
    assert "one batch only" in document["error"]["message"]


def test_a_batch_that_is_purged_after_the_listing_is_missing_and_not_corrupt(s3: S3Access, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    put_directory(s3, bucket, "c", checkpoint_copy("rocksdb2-changelog", tmp_path / "c"))

    def purge(exchange: Exchange) -> None:
        for key in (*(f"c/offsets/{batch}" for batch in range(5)), exchange.path.removeprefix(f"/{bucket}/")):
            s3.client().delete_object(Bucket=bucket, Key=key)
        exchange.forward()

    with (
        s3_proxy(s3.endpoint, Fault(purge, "GET", ".changelog")) as endpoint,
        pytest.raises(CheckpointMissingError, match="purged while it was read"),
    ):
        closure(tree(s3, bucket, "c", endpoint), 5, with_planned=False)
