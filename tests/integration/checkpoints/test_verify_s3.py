"""Checkpoints whose files are objects: judged as the same files on a disk are, with the requests that it takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.closure import closure
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, NotAFileError, UnreadableError
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.object_tree import BLOCK
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.errors import CheckpointMissingError
from tests.support.checkpoints.damage import DAMAGES, Damage
from tests.support.s3.s3_checkpoints import noting_proxy, put_directory, tree
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, cut_answer, refuse, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.corpus import checkpoint_copy
from tests.unit.checkpoints.test_verification_sparse import write_log


pytestmark = pytest.mark.timeout(300)
SPARK = "4.2.0"
LEFT = "CHECKSUM_LEFT"


@pytest.fixture
def small(s3: S3Access, bucket: str, tmp_path: Path) -> str:
    """A checkpoint without state below ``c``: batches 0 and 1 are committed. Returns its URI."""
    put_directory(s3, bucket, "c", write_log(tmp_path / "small", offsets=[0, 1], commits=[0, 1], version=2))
    return f"s3://{bucket}/c"


def codes(report: VerificationReport) -> list[str]:
    return [finding.code.value for finding in report.findings]


def command(s3: S3Access, endpoint: str, *words: str) -> tuple[int, str]:
    """Call the command as a user does who has said everything in the environment."""
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
    }
    done = CliRunner(env={"COLUMNS": "300", **environment}).invoke(app, ["checkpoint", "verify", *words])
    return done.exit_code, done.output


class WithoutTimes(LocalTree):
    """A disk whose times say nothing, as after a copy: objects have no directories, and so no times of them."""

    keeps_times = False


@pytest.mark.long
@pytest.mark.parametrize("damage", [each for each in DAMAGES if each.code != LEFT], ids=lambda damage: damage.id)
def test_a_damaged_checkpoint_is_judged_as_on_a_disk_without_times(
    damage: Damage, s3: S3Access, bucket: str, tmp_path: Path
) -> None:
    copy = checkpoint_copy(damage.shape, tmp_path / "c")
    damage.apply(copy)
    put_directory(s3, bucket, "c", copy)

    for depth in ("quick", "full"):
        assert verify(tree(s3, bucket, "c"), depth=depth, spark_version=SPARK) == verify(
            WithoutTimes(copy), depth=depth, spark_version=SPARK
        )


@pytest.mark.long
@pytest.mark.parametrize("damage", [each for each in DAMAGES if each.code == LEFT], ids=lambda damage: damage.id)
def test_a_checksum_that_was_left_bothers_only_hadoops_local_file_system(
    damage: Damage, s3: S3Access, bucket: str, tmp_path: Path
) -> None:
    copy = checkpoint_copy(damage.shape, tmp_path / "c")
    damage.apply(copy)
    put_directory(s3, bucket, "c", copy)

    report = verify(tree(s3, bucket, "c"), spark_version=SPARK)

    assert report.startable is (None if damage.shape == "stateless" else True)  # whether state was removed stays open
    assert LEFT not in codes(report)


def test_a_verification_asks_for_the_pages_of_the_list_and_for_each_object_that_it_needs_once(
    s3: S3Access, bucket: str, tmp_path: Path
) -> None:
    put_directory(s3, bucket, "c", checkpoint_copy("rocksdb2-changelog", tmp_path / "c"))
    put_directory(s3, bucket, "c/unrelated", tmp_path / "c" / "offsets")

    with noting_proxy(s3.endpoint) as (endpoint, asked):
        report = verify(tree(s3, bucket, "c", endpoint), spark_version=SPARK)

    assert report.startable is True
    assert (asked.lists, asked.others) == (1, [])
    assert len(asked.reads) == len(set(asked.reads))
    assert not [key for key in asked.reads if "unrelated" in key]


def test_a_sink_in_the_same_bucket_is_judged_by_its_log_and_by_one_list(
    s3: S3Access, bucket: str, small: str, tmp_path: Path
) -> None:
    entries = tmp_path / LOG
    entries.mkdir()
    for batch, size in ((0, 4), (1, 4), (2, 4)):
        line = {"path": f"s3a://{bucket}/out/day=a%20b/part-{batch}.json", "size": size, "isDir": False}
        (entries / str(batch)).write_text("v1\n" + json.dumps(line))
    put_directory(s3, bucket, f"out/{LOG}", entries)
    for batch, content in ((0, b"1234"), (1, b"123")):
        s3.client().put_object(Bucket=bucket, Key=f"out/day=a b/part-{batch}.json", Body=content)

    report = verify(tree(s3, bucket, "c"), sink=tree(s3, bucket, "out"), spark_version=SPARK)

    assert report.sink is not None
    assert (str(report.sink.path), report.sink.max_batch) == (f"s3://{bucket}/out", 2)
    assert codes(report) == ["SINK_UNPLANNED", "SINK_FILE_SIZE", "SINK_FILE_MISSING"]


def test_the_command_takes_a_uri_and_the_environment(s3: S3Access, small: str) -> None:
    code, output = command(s3, s3.endpoint, small.replace("s3://", "s3a://"), "--json")

    assert (code, json.loads(output)["restorable"]) == (0, [0, 1])


@pytest.mark.parametrize(
    ("place", "answer", "said"), [("nowhere", 64, "no object has this prefix"), ("../nobucket-here", 2, "NoSuchBucket")]
)
def test_an_empty_prefix_is_a_wrong_call_and_a_store_without_the_bucket_is_unknown(
    s3: S3Access, bucket: str, place: str, answer: int, said: str
) -> None:
    uri = f"s3://{place.removeprefix('../')}" if place.startswith("../") else f"s3://{bucket}/{place}"

    code, output = command(s3, s3.endpoint, uri)

    assert code == answer
    assert said in output
    assert "Traceback" not in output


def test_the_prefix_above_a_checkpoint_offers_it(s3: S3Access, bucket: str, small: str) -> None:
    above, _, query = small.rpartition("/")

    code, output = command(s3, s3.endpoint, above)

    assert code == 64
    assert f"{above} is no checkpoint: it holds one, {query}" in output
    assert f"spark-ha checkpoint verify {small}" in output


@pytest.mark.parametrize(("status", "error"), [(403, "AccessDenied"), (503, "SlowDown")])
def test_an_object_that_may_not_be_read_now_is_unreadable_and_never_corrupt(
    s3: S3Access, bucket: str, small: str, status: int, error: str
) -> None:
    with s3_proxy(s3.endpoint, Fault(refuse(status, error), "GET", "/c/offsets/1", times=FOR_EVER)) as endpoint:
        report = verify(tree(s3, bucket, "c", endpoint))

    (finding,) = report.findings
    assert (report.startable, finding.code.value, finding.path) == (None, "UNREADABLE", "offsets/1")
    assert error in finding.found


def test_an_answer_that_breaks_off_is_asked_for_again(s3: S3Access, bucket: str, small: str) -> None:
    with s3_proxy(s3.endpoint, Fault(cut_answer(3), "GET", "/c/offsets/1")) as endpoint:
        assert verify(tree(s3, bucket, "c", endpoint)).startable is True


def test_a_marker_is_an_empty_directory_and_no_file(s3: S3Access, bucket: str, small: str) -> None:
    s3.client().put_object(Bucket=bucket, Key="c/state/0/", Body=b"")
    found = tree(s3, bucket, "c")

    assert (found.is_directory(), (found / "state").names(), (found / "state/0").names()) == (True, ["0"], [])
    assert codes(verify(found)) == ["STATE_MISSING"]
    with pytest.raises(NotAFileError):
        found.read("state")


def test_a_large_object_is_read_in_blocks_of_the_version_that_was_listed(s3: S3Access, bucket: str) -> None:
    content = b"".join(number.to_bytes(4, "big") for number in range((2 * BLOCK + 4000) // 4))
    s3.client().put_object(Bucket=bucket, Key="c/large", Body=content)
    with noting_proxy(s3.endpoint) as (endpoint, asked), tree(s3, bucket, "c", endpoint).opened("large") as file:
        assert file.read_at(file.size - 8, 100) == content[-8:]
        assert file.read_at(BLOCK - 10, 20) == content[BLOCK - 10 : BLOCK + 10]
        assert file.read_at(file.size - 4000, 4000) == content[-4000:]
        assert len(asked.reads) == 3

        s3.client().put_object(Bucket=bucket, Key="c/large", Body=content[::-1])
        with pytest.raises(UnreadableError, match="was replaced while it was read"):
            file.read_at(0, 10)

        s3.client().delete_object(Bucket=bucket, Key="c/large")
        with pytest.raises(FileGoneError):
            file.read_at(0, 10)


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
