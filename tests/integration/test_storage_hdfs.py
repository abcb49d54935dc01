"""What the user reads when HDFS cannot be used, and outcomes whose answer was lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import costs
from airflow_provider_ha.config import HaConfig, HdfsOptions
from airflow_provider_ha.errors import ObjectExistsError, StorageUnavailableError
from airflow_provider_ha.storage._webhdfs import HdfsLimits
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_faults import FOR_EVER, Fault, cut_request, lose_answer, s3_proxy


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
QUICK = HdfsLimits(connect_timeout=1, read_timeout=1, attempts=2, deadline=10)


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    """An HDFS that asks for permissions; its superuser is the user of this process."""
    with hdfs_server({"dfs.permissions.enabled": "true"}) as server:
        yield server


@contextmanager
def stopped(hdfs: Hdfs) -> Iterator[None]:
    """Let the name node not run."""
    hdfs.namenode.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        hdfs.namenode.send_signal(signal.SIGCONT)


def test_a_creation_whose_answer_was_lost_has_happened(hdfs: Hdfs) -> None:
    root, lost = hdfs.new_root(), Fault(lose_answer, "PUT", containing="op=RENAME")

    with s3_proxy(hdfs.web, lost) as proxied:
        HdfsStore(root, hdfs.options(proxied)).create("a", b"mine")

    assert (lost.hits, HdfsStore(root, hdfs.options()).read("a")) == (1, b"mine")


def test_equal_bytes_of_another_writer_are_not_ones_own(hdfs: Hdfs) -> None:
    root, lost = hdfs.new_root(), Fault(lose_answer, "PUT", containing="op=RENAME")
    HdfsStore(root, hdfs.options()).create("a", b"v1")

    with s3_proxy(hdfs.web, lost) as proxied, pytest.raises(ObjectExistsError):
        HdfsStore(root, hdfs.options(proxied)).create("a", b"v1")

    assert lost.hits == 1


def test_a_creation_that_was_not_executed_is_asked_for_again(hdfs: Hdfs) -> None:
    root, never = hdfs.new_root(), Fault(cut_request(0), "PUT", containing="op=RENAME")

    with s3_proxy(hdfs.web, never) as proxied:
        HdfsStore(root, hdfs.options(proxied)).create("a", b"mine")

    assert (never.hits, HdfsStore(root, hdfs.options()).read("a")) == (1, b"mine")


def test_a_creation_that_fails_leaves_nothing_in_preparation(hdfs: Hdfs) -> None:
    root, never = hdfs.new_root(), Fault(cut_request(0), "PUT", containing="op=RENAME", times=FOR_EVER)

    with s3_proxy(hdfs.web, never) as proxied, pytest.raises(StorageUnavailableError, match="could not be created"):
        HdfsStore(root, hdfs.options(proxied), QUICK).create("a", b"mine")

    files = HdfsStore(root, hdfs.options())
    assert (list(files.list("")), list(files.prepared(""))) == ([], [])


def test_an_overwriting_whose_answer_was_lost_has_happened(hdfs: Hdfs) -> None:
    root, lost = hdfs.new_root(), Fault(lose_answer, "PUT", containing="op=RENAME")
    HdfsStore(root, hdfs.options()).write("a", b"old")

    with s3_proxy(hdfs.web, lost) as proxied:
        HdfsStore(root, hdfs.options(proxied)).write("a", b"new")

    assert HdfsStore(root, hdfs.options()).read("a") == b"new"


def test_a_name_node_that_does_not_answer_is_named(hdfs: Hdfs) -> None:
    files = HdfsStore(hdfs.new_root(), hdfs.options(), QUICK)

    with stopped(hdfs), pytest.raises(StorageUnavailableError, match="no answer came in time") as caught:
        files.read("a")

    assert hdfs.web in str(caught.value)


def test_a_name_node_in_safe_mode_can_be_read_and_says_why_it_cannot_be_written(hdfs: Hdfs) -> None:
    files = HdfsStore(hdfs.new_root(), hdfs.options(), QUICK)
    files.write("a", b"old")
    hdfs.admin("-safemode", "enter")
    try:
        with pytest.raises(StorageUnavailableError, match="safe mode") as caught:
            LayeredWorkArea(files).capabilities()
        before = files.read("a")
    finally:
        hdfs.admin("-safemode", "leave")

    assert "hdfs dfsadmin -safemode get" in caught.value.next_step
    assert (before, list(files.names(""))) == (b"old", ["a"])


def test_a_quota_of_names_is_called_by_its_name(hdfs: Hdfs) -> None:
    files = HdfsStore(hdfs.new_root(), hdfs.options(), QUICK)
    files.write("a", b"")
    hdfs.admin("-setQuota", "2", files.uri.removeprefix(hdfs.uri))

    with pytest.raises(StorageUnavailableError, match="quota") as caught:
        files.create("b", b"")

    assert "Raise the quota" in caught.value.next_step


def test_a_quota_of_space_is_called_by_its_name(hdfs: Hdfs) -> None:
    files = HdfsStore(hdfs.new_root(), hdfs.options(), QUICK)
    files.write("a", b"")
    hdfs.admin("-setSpaceQuota", "1m", files.uri.removeprefix(hdfs.uri))

    with pytest.raises(StorageUnavailableError, match="quota") as caught:
        files.create("b", b"content")

    assert "Raise the quota" in caught.value.next_step
    assert [file.key for file in files.list("")] == ["a"]


def test_a_cluster_without_a_data_node_is_called_so() -> None:
    quickly_dead = {"dfs.heartbeat.interval": "1", "dfs.namenode.heartbeat.recheck-interval": "500"}
    with hdfs_server(quickly_dead) as hdfs:
        files = HdfsStore(hdfs.new_root(), hdfs.options(), QUICK)
        hdfs.datanode.kill()

        def step() -> str:
            with pytest.raises(StorageUnavailableError) as caught:
                files.create("a", b"content")
            return caught.value.next_step if "Failed to find datanode" in str(caught.value) else ""

        # Until the name node has missed its heartbeats, it sends the client there.
        wait_until(lambda: step() != "", timeout=60, what="the death of the data node")
        assert "hdfs dfsadmin -report" in step()


def test_a_user_without_permission_reads_whose_directory_it_is(hdfs: Hdfs) -> None:
    root = hdfs.new_root()
    HdfsStore(root, hdfs.options()).write("a", b"")

    with pytest.raises(StorageUnavailableError, match=r"Permission denied: user=stranger") as caught:
        HdfsStore(root, hdfs.options(user="stranger"), QUICK).create("b", b"")

    assert "hdfs dfs -chown" in caught.value.next_step


def test_the_port_of_hadoops_own_protocol_is_recognised(hdfs: Hdfs) -> None:
    rpc = hdfs.uri.replace("hdfs://", "http://")

    with pytest.raises(StorageUnavailableError, match="not that of the web server") as caught:
        HdfsStore(hdfs.new_root(), hdfs.options(rpc), QUICK).read("a")

    assert "hdfs_namenodes" in caught.value.next_step


def test_a_cluster_with_its_work_root_on_hdfs_passes_its_test(hdfs: Hdfs, tmp_path: Path) -> None:
    config = HaConfig.build(
        zookeeper="zk:2181",
        storage_root=tmp_path.as_uri(),
        work_root=hdfs.new_root(),
        home_root=tmp_path.as_uri(),
        hdfs=hdfs.options().model_dump(),
    )

    area = open_work_area(config)

    assert (costs(area), area.uri("jobs/flights/live/e1-x")) == ((), f"ha{config.work_uri}/jobs/flights/live/e1-x")


def test_the_next_name_node_is_asked_when_one_is_gone(hdfs: Hdfs) -> None:
    options = HdfsOptions(namenodes=("http://127.0.0.1:1", hdfs.web))

    HdfsStore(hdfs.new_root(), options, QUICK).create("a", b"")


def test_a_large_file_is_uploaded_and_read_in_parts(hdfs: Hdfs, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 40_000)
    files = HdfsStore(hdfs.new_root(), hdfs.options())

    files.upload("a", source)

    (file,) = files.list("")
    assert (file.size, files.read_range(file, 5_000_001, 3)) == (10_240_000, bytes(range(256))[65:68])
