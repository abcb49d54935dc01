"""Names of places: URIs, roots of a configuration, and keys of records."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.sources.input_files import look_for
from airflow_provider_ha.checkpoints.spark.object_tree import ObjectTree
from airflow_provider_ha.checkpoints.spark.places import local_path, output_place
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.config import ENVIRONMENT, HaConfig, HdfsOptions, S3Options
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError, StorageUnavailableError
from airflow_provider_ha.hooks._connection import config_of
from airflow_provider_ha.host.java import utf8_locale
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.keys import resolve_key
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.storage.s3_store import S3Store
from airflow_provider_ha.uris import file_uri, list_item, of_log, split
from tests.support.odd_names import ODD


KEY = "jobs/flights/live/e1-x"
HDFS = f"hdfs://names:8020/{ODD}"

# As java.net.URI writes ODD, which Spark's logs hold: letters of other alphabets stay.
OF_JAVA = "w\u00f6rk%20root%20%231%2520+%3F;&=%5Bx%5D%7By%7D*'%22$"
AREAS: dict[str, tuple[WorkArea, str]] = {
    "linked": (LinkedWorkArea(Path(f"/{ODD}")), f"file:///{ODD}/{KEY}"),
    "directory": (LayeredWorkArea(LocalStore(Path(f"/{ODD}"), new=True)), f"hafile:///{ODD}/{KEY}"),
    "s3": (LayeredWorkArea(S3Store(f"s3://bucket/{ODD}", S3Options())), f"has3a://bucket/{ODD}/{KEY}"),
    "hdfs": (LayeredWorkArea(HdfsStore(HDFS, HdfsOptions())), f"hahdfs://names:8020/{ODD}/{KEY}"),
}


@pytest.mark.parametrize("kind", AREAS)
def test_spark_is_given_a_directory_letter_by_letter_as_hadoop_reads_it(kind: str) -> None:
    area, expected = AREAS[kind]

    assert area.uri(KEY) == expected
    assert split(expected).path == f"/{ODD}/{KEY}"


@pytest.mark.parametrize("root", ["file:///data", "s3a://bucket", "hdfs://names:8020", "file:"])
def test_what_a_log_of_spark_names_is_the_place_that_the_script_named(root: str) -> None:
    assert of_log(f"{root}/{OF_JAVA}/a%25b") == f"{root}/{ODD}/a%b"


@pytest.mark.parametrize(
    ("root", "there"), [(f"s3://bucket/{ODD}", f"s3a://bucket/{OF_JAVA}"), (HDFS, f"hdfs://names:8020/{OF_JAVA}")]
)
@pytest.mark.parametrize("key", [KEY, f"{ODD}/part-0.json", "day=2026-01-01 00%3A00/part"])
def test_a_key_is_found_again_by_the_uri_that_spark_writes_of_it(root: str, there: str, key: str) -> None:
    written = f"{there}/{quote(key, safe='/=')}"

    assert ObjectTree(SimpleNamespace(uri=root)).below(written) == key


def test_an_input_is_looked_for_where_spark_has_read_it(tmp_path: Path) -> None:
    (tmp_path / ODD).mkdir()
    (tmp_path / ODD / "here%20.json").touch()
    paths = [f"file://{tmp_path}/{OF_JAVA}/{name}%2520.json" for name in ("here", "gone")]
    entry = BatchEntry(batch=3, offsets="", sources={"0": tuple(json.dumps({"path": path}) for path in paths)})

    assert look_for([entry]).missing == {3: (paths[1],)}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        (f"file:///data/{ODD}", f"/data/{ODD}"),
        (f"/data/{ODD}", f"/data/{ODD}"),
        (f"s3a://bucket/{ODD}/", f"s3://bucket/{ODD}"),
        (HDFS, HDFS),
    ],
)
def test_an_output_has_the_name_that_the_script_gives_it(said: str, place: str) -> None:
    assert output_place(said) == output_place(place) == place


def test_a_path_and_its_uri_are_one_place() -> None:
    path = Path(f"/data/{ODD}")

    assert local_path(file_uri(path)) == local_path(str(path)) == path


def test_roots_are_read_letter_by_letter() -> None:
    config = HaConfig.build(
        zookeeper="zk", storage_root=f"file:///s/{ODD}", work_root=f"s3://b/{ODD}", home_root=f"file:///h/{ODD}"
    )

    assert (config.work_uri, config.home_path) == (f"s3://b/{ODD}/default", Path(f"/h/{ODD}/default"))
    assert HaConfig.build(zookeeper="zk", storage_root=f"file:///s/{ODD}").work_path == Path(f"/s/{ODD}/default")


@pytest.mark.parametrize(
    ("roots", "reason"),
    [
        ({"storage_root": "file:///data/ha "}, "ends with a space"),
        ({"storage_root": "file:///data/a\tb"}, "has a control character"),
        ({"storage_root": "file:///data/../ha"}, r"has a part '\.' or '\.\.'"),
        ({"storage_root": "file:///data/a:b"}, "has a character of ':,' in its path"),
        ({"storage_root": "file:///data/a,b"}, "has a character of ':,' in its path"),
        ({"work_root": "hdfs://names/a:b", "home_root": "file:///h"}, "has a character of ':' in its path"),
        ({"work_root": "s3://bucket/a//b", "home_root": "file:///h"}, "or an empty one"),
        ({"home_root": "file:///h:1"}, "has a character of ':,' in its path"),
    ],
)
def test_a_root_that_spark_would_read_as_another_place_is_refused_wherever_it_is_named(
    monkeypatch: pytest.MonkeyPatch, roots: dict[str, str], reason: str
) -> None:
    roots = {"storage_root": "file:///s", **roots}
    form = SimpleNamespace(
        conn_id="prod", conn_type="spark_ha", host="zk", schema=None, port=None, login=None, password=None
    )
    for field, value in {"zookeeper": "localhost:1", **roots}.items():
        monkeypatch.setenv(ENVIRONMENT[field], value)

    with pytest.raises(ConfigurationError, match=reason):
        config_of(form, roots)
    for command in (["storage", "check"], ["job", "submit", "odd", __file__]):
        said = CliRunner().invoke(app, command)
        assert said.exit_code != 0
        assert "cannot be used: " in " ".join(said.output.split())


def test_an_item_of_a_list_of_spark_submit_is_one_file_whatever_its_name() -> None:
    assert list_item(Path("/a b/{x}*,#%20.zip")) == "file:///a%20b/%5C%7Bx%5C%7D%5C%2A%2C%23%2520.zip"


def test_a_sign_that_spark_submit_cannot_be_told_stands_for_one_file(tmp_path: Path) -> None:
    for name in ("a?[1]", "a3", "other"):
        (tmp_path / name).touch()

    assert list_item(tmp_path / "a?[1]") == f"file://{tmp_path}/a%2A%2A1%2A"
    (tmp_path / "a-?-1-").touch()
    with pytest.raises(ConfigurationError, match=r"spark-submit confuses '.*/a-\?-1-' with '.*/a\?\[1\]'"):
        list_item(tmp_path / "a?[1]")


@pytest.mark.parametrize(
    ("inherited", "given"),
    [
        ({}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "", "LC_CTYPE": "POSIX"}, {"LC_ALL": "C.UTF-8"}),
        ({"LANG": "de_DE.UTF-8"}, {}),
        ({"LANG": "C", "LC_CTYPE": "C.utf8"}, {}),
    ],
)
def test_a_jvm_is_given_a_locale_that_has_the_names_of_this_python(
    inherited: dict[str, str], given: dict[str, str]
) -> None:
    assert utf8_locale(inherited) == given


S3_WORK: dict[str, Any] = {"work_root": "s3://b/live", "home_root": "file:///var/ha"}


def config(storage_root: str, **roots: Any) -> HaConfig:
    return HaConfig.build(zookeeper="127.0.0.1:1", storage_root=storage_root, **roots)


@pytest.mark.parametrize(
    ("storage", "roots", "reason"),
    [
        ("s3://b/ha", {}, "an s3:// storage root needs a work_root"),
        ("s3://b/ha", {"work_root": "s3://b/live"}, "give home_root as a file:// URI"),
        ("s3://b/ha", S3_WORK | {"home_root": "s3://b/home"}, "give home_root as a file:// URI"),
        ("s3://b/ha", S3_WORK | {"work_root": "s3://b/ha"}, "are nested"),
        ("s3://b/ha", S3_WORK | {"work_root": "s3://b/ha/live"}, "are nested"),
        ("s3://b/ha/blobs", S3_WORK | {"work_root": "s3://b/ha"}, "are nested"),
    ],
)
def test_roots_that_cannot_work_are_refused_with_what_to_give(storage: str, roots: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        config(storage, **roots)


@pytest.mark.parametrize(
    ("roots", "area", "uri"),
    [
        ({}, "LinkedWorkArea", "file:///ha/default/jobs/j"),
        ({"work_root": "file:///live"}, "LinkedWorkArea", "file:///live/default/jobs/j"),
        (S3_WORK, "LayeredWorkArea", "has3a://b/live/default/jobs/j"),
    ],
)
def test_the_work_root_says_how_directories_are_made(roots: Any, area: str, uri: str) -> None:
    found = open_work_area(config("file:///ha", **roots))

    assert (type(found).__name__, found.uri("jobs/j")) == (area, uri)


def test_a_driver_keeps_its_files_where_its_home_is() -> None:
    assert config("s3://b/ha", **S3_WORK).home_path == Path("/var/ha/default")
    assert config("file:///ha").home_path == Path("/ha/default")


INSIDE = ("jobs/flights/live/", "jobs/flights/savepoints/")


def resolve(root: Path, key: str) -> Path:
    return resolve_key(root, key, inside=INSIDE, source="znode /a")


@pytest.mark.parametrize("key", ["jobs/flights/live/e1-x", "jobs/flights/savepoints/nightly"])
def test_a_key_of_one_of_the_prefixes_is_a_path_whether_it_exists_or_not(tmp_path: Path, key: str) -> None:
    assert resolve(tmp_path, key) == tmp_path / key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/etc",
        "..",
        "jobs/flights/live/",
        "jobs/flights/live",
        "jobs/flights/live/..",
        "jobs/flights/live/../x",
        "jobs/flights/live/e1-x/q",
        "jobs/flights/live//etc",
        "jobs/flights/checkpoints/pins/1",
        "jobs/flight/live/e1-x",
        "jobs/flights2/live/e1-x",
        "jobs/flights/live/\x00",
        "jobs/flights/live/a\nb",
    ],
)
def test_a_key_names_one_thing_of_its_prefix(tmp_path: Path, key: str) -> None:
    with pytest.raises(RecordCorruptError, match="znode /a is refused") as caught:
        resolve(tmp_path, key)

    assert caught.value.next_step


@pytest.mark.parametrize("link", ["jobs", "jobs/flights", "jobs/flights/live", "jobs/flights/live/e1-x"])
def test_no_link_below_the_root_is_followed(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)

    with pytest.raises(RecordCorruptError, match="symbolic link"):
        resolve(root, "jobs/flights/live/e1-x")


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(tmp_path / "disk")

    assert resolve(tmp_path / "root", "jobs/flights/live/e1-x") == tmp_path / "root/jobs/flights/live/e1-x"


def test_a_way_that_cannot_be_looked_at_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "jobs/flights/live").mkdir(parents=True)

    with pytest.raises(StorageUnavailableError, match="could not be inspected"):
        resolve(tmp_path, f"jobs/flights/live/{'x' * 300}")
