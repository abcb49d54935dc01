"""Real queries over two epochs: state, sink and every file of the first epoch are what they have to be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from java.build_component import build
from tests.support.hdfs.hdfs_server import hdfs_server
from tests.support.releases.installed import BY_VERSION, environment, python
from tests.support.s3.s3_server import real_server
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark import component_queries
from tests.support.spark.component_queries import FILES, ROWS, SHAPES, truth


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
# The first time it installs the release.
OTHER_RELEASE = [pytest.mark.hours, pytest.mark.long, pytest.mark.timeout(1800)]

Seen = dict[str, Any]


def request(scratch: Path, root: str, shapes: list[str], **more: Any) -> dict[str, Any]:
    scheme = root.partition(":")[0]
    conf = {
        f"spark.hadoop.fs.ha{scheme}.impl": "io.github.sparkha.HaFileSystem",
        "spark.hadoop.fs.ha.root": root,
        "spark.hadoop.fs.ha.writer": "1/s/process",
        "spark.sql.streaming.checkpointFileManagerClass": "io.github.sparkha.HaCheckpointFileManager",
        **more.pop("conf", {}),
    }
    jars = ",".join(map(str, (build(), *more.pop("jars", ()))))
    output = more.pop("output", f"file://{scratch}/out")
    return {
        "root": root,
        "conf": conf,
        "jars": jars,
        "output": output,
        "shapes": shapes,
        "scratch": str(scratch),
        **more,
    }


def check(seen: Seen, shapes: list[str]) -> None:
    assert seen["counts"] == {shape: truth(shape) for shape in shapes}
    assert seen["rows"] == FILES * ROWS
    assert seen["unchanged"] == dict.fromkeys([*shapes, "sink"], True)
    assert seen["counters"]["delete_left"] > 0
    assert seen["counters"]["read_from_base"] > 0
    assert seen["counters"].get("delete", 0) == 0


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What was seen of queries on the local disk: of the quickest layout, and of one with replaceable names."""
    scratch = tmp_path_factory.mktemp("queries")
    shapes = ["rocksdb2", "hdfs_backed"]
    return component_queries.run(request(scratch, f"file://{scratch}/store", shapes, guards=True), scratch)


def test_a_later_epoch_continues_from_the_base_and_does_not_change_it(seen: Seen) -> None:
    check(seen, ["rocksdb2", "hdfs_backed"])


def test_a_query_without_a_lease_ends_with_the_reason(seen: Seen) -> None:
    assert "the gate is closed: the leadership is lost" in seen["lease"]


def test_a_new_session_is_fenced_as_well(seen: Seen) -> None:
    assert seen["guards"]["new session"] == "fine"
    assert seen["guards"]["query"] == "fine"
    assert seen["guards"]["query runs"] == "True"


@pytest.mark.parametrize("session", ["unset", "other"])
def test_a_session_with_another_manager_is_refused(seen: Seen, session: str) -> None:
    assert "it would run without the fence" in seen["guards"][session]


def test_a_query_with_another_manager_is_refused_and_stopped(seen: Seen) -> None:
    assert (
        "FileSystemBasedCheckpointFileManager: it would run without the fence"
        in seen["guards"]["query of another manager"]
    )
    assert seen["guards"]["query of another manager runs"] == "False"


def with_copies(folder: Path) -> dict[str, str]:
    """Return the conf of copies on the local disk."""
    return {
        "spark.hadoop.fs.ha.copies": "true",
        "spark.hadoop.fs.ha.copies.directory": str(folder),
        "spark.plugins": "io.github.sparkha.CopiesPlugin",
    }


def check_copies(seen: Seen, shapes: list[str]) -> None:
    check(seen, shapes)
    for shape in shapes:
        copies, copy_bytes, files, size, micros, _ = map(int, seen["reads"][shape])
        assert (files, size) == (0, 0)
        assert min(copies, copy_bytes, micros) > 0
    assert [seen["counters"].get(f"copy_{kind}", 0) for kind in ("wrong", "error", "refused")] == [0, 0, 0]


@pytest.mark.parametrize(
    "release",
    ["4.2.0", *(pytest.param(release, marks=OTHER_RELEASE) for release in ("4.1.4", "4.3.0"))],
)
def test_a_later_epoch_reads_no_state_from_the_store_where_there_are_copies(release: str, tmp_path: Path) -> None:
    spark = BY_VERSION[release]
    shapes = ["rocksdb2", "changelog2", "join"]
    asked = request(tmp_path, f"file://{tmp_path}/store", shapes, conf=with_copies(tmp_path / "copies"))

    check_copies(component_queries.run(asked, tmp_path, str(python(spark)), **_of(environment(spark))), shapes)


@pytest.mark.hours
@pytest.mark.long
@pytest.mark.timeout(1800)  # the first time it installs the release
@pytest.mark.parametrize(
    "release", [pytest.param("4.1.4", marks=pytest.mark.hours), pytest.param("4.2.0", marks=pytest.mark.hours), "4.3.0"]
)
def test_each_release_that_the_component_claims_runs_every_layout(release: str, tmp_path: Path) -> None:
    spark = BY_VERSION[release]
    asked = request(tmp_path, f"file://{tmp_path}/store", list(SHAPES))

    check(component_queries.run(asked, tmp_path, str(python(spark)), **_of(environment(spark))), list(SHAPES))


def _of(values: dict[str, str]) -> dict[str, str]:
    """Return the environment of a release, whose packages come before those of this process."""
    root = str(component_queries.ROOT)
    return values | {"PYTHONPATH": f"{values['PYTHONPATH']}:{root}" if "PYTHONPATH" in values else root}


@pytest.fixture(scope="module")
def on_s3() -> Iterator[dict[str, Any]]:
    """What a request on S3 says."""
    with real_server() as s3:
        conf = {
            "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": s3.access_key,
            "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
        }
        yield {"bucket": s3.new_bucket(), "conf": conf}


@pytest.mark.hours
@pytest.mark.long
def test_every_layout_on_s3(on_s3: dict[str, Any], tmp_path: Path) -> None:
    root = f"s3a://{on_s3['bucket']}"
    asked = request(tmp_path, f"{root}/store", list(SHAPES), output=f"{root}/out", conf=on_s3["conf"], jars=s3a_jars())

    check(component_queries.run(asked, tmp_path), list(SHAPES))


@pytest.mark.long
@pytest.mark.hours
def test_every_layout_on_hdfs(tmp_path: Path) -> None:
    with hdfs_server() as hdfs:
        asked = request(
            tmp_path,
            f"{hdfs.uri}/store",
            list(SHAPES),
            output=f"{hdfs.uri}/out",
            conf={"spark.hadoop.dfs.replication": "1"},
        )

        check(component_queries.run(asked, tmp_path), list(SHAPES))
