"""A directory with a base shows what it names; own files come first, and nothing of the base is ever touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import Local
from tests.support.spark.component_jvm import ComponentJvm, base, java_class


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
UNIQUE = "state/0/3/17_0b7e6f1a-4f98-49f2-9844-b641db3621eb.zip"
REPLACEABLE = ("17.zip", "17.delta", "16.snapshot", "17.changelog", "17.zip.crc")


@pytest.mark.parametrize(
    "name",
    [
        "metadata",
        "offsets/4",
        "commits/3",
        "sources/0/9.compact",
        "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema",
        "state/0/3/left-keyToNumValues/17.delta",
        "state/0/3/SSTs/000008-c351d044-0f03-447f-99fc-95d370f5fb88.sst",
        UNIQUE,
    ],
)
def test_a_name_of_the_base_is_read_from_its_place(local: Local, name: str) -> None:
    local.inherit(name)

    assert local.read(name) == f"7 {name}"


@pytest.mark.parametrize("name", ["offsets/4", "state/0/3/17.delta"])
def test_an_own_file_comes_before_the_base(local: Local, name: str) -> None:
    local.inherit(name)
    local.write(name)

    assert local.read(name) == f"8 {name}"


def test_a_name_with_an_id_is_not_looked_for_in_the_own_directory(local: Local) -> None:
    local.inherit(UNIQUE)
    files, before = local.files, local.jvm.counts().get("status", 0)

    local.jvm.read(files, f"{local.uri}/{UNIQUE}")

    assert local.jvm.counts().get("status", 0) == before


def test_a_list_shows_both_and_the_base_itself_never(local: Local) -> None:
    local.inherit("offsets/3", "offsets/4", "state/0/3/17.delta", "metadata")
    local.write("offsets/5")

    assert local.jvm.names(local.files, f"{local.uri}/offsets") == ["3", "4", "5"]
    assert local.jvm.names(local.files, local.uri) == ["metadata", "offsets", "state"]
    assert local.jvm.names(local.files, f"{local.uri}/state/0") == ["3"]


def test_a_directory_that_only_the_base_has_is_one(local: Local) -> None:
    local.inherit("state/0/3/17.delta")

    assert local.files.getFileStatus(local.jvm.path(f"{local.uri}/state/0")).isDirectory()


def test_a_query_may_be_called_like_a_log(local: Local) -> None:
    """``offsets`` is then the name of a directory with directories."""
    (local.own.parent / "offsets" / "state").mkdir(parents=True)
    uri = f"hafile://{local.own.parent}/offsets"

    assert local.jvm.manager(local.conf, f"{uri}/state").exists(local.jvm.path(f"{uri}/state"))


def test_the_status_of_a_name_equals_that_of_the_base(local: Local) -> None:
    local.inherit(UNIQUE)
    os.utime(local.old / UNIQUE, (1_700_000_000, 1_700_000_000))

    status = local.files.getFileStatus(local.jvm.path(f"{local.uri}/{UNIQUE}"))

    assert status.getLen() == len(f"7 {UNIQUE}")
    assert status.getModificationTime() > 1_700_000_000_000
    assert str(status.getPath()).startswith("hafile:")


@pytest.mark.parametrize("raw", [None, True])
def test_a_copy_to_the_local_disk_comes_from_the_place(local: Local, tmp_path: Path, raw: bool | None) -> None:
    local.inherit(UNIQUE)
    target = tmp_path / "copied"
    source = local.jvm.path(f"{local.uri}/{UNIQUE}")
    arguments = (False, source, local.jvm.path(f"file://{target}"), *([] if raw is None else [raw]))

    local.files.copyToLocalFile(*arguments)

    assert target.read_text() == f"7 {UNIQUE}"


def test_an_upload_goes_into_the_own_directory(local: Local, tmp_path: Path) -> None:
    local.inherit("state/0/3/SSTs/000008-c351d044-0f03-447f-99fc-95d370f5fb88.sst")
    (tmp_path / "new.sst").write_text("new")
    name = "state/0/3/SSTs/000009-c351d044-0f03-447f-99fc-95d370f5fb88.sst"

    local.files.copyFromLocalFile(local.jvm.path(f"file://{tmp_path}/new.sst"), local.jvm.path(f"{local.uri}/{name}"))

    assert (local.own / name).read_text() == "new"
    assert len(local.jvm.names(local.files, f"{local.uri}/state/0/3/SSTs")) == 2


@pytest.mark.parametrize("name", REPLACEABLE)
def test_a_file_that_was_replaced_since_is_refused(local: Local, name: str) -> None:
    local.inherit(f"state/0/3/{name}")
    (local.old / "state/0/3" / name).write_bytes(b"written by an executor of a zombie")

    with pytest.raises(Py4JJavaError) as refused:
        local.read(f"state/0/3/{name}")

    assert java_class(refused.value) == "java.io.IOException"
    text = str(refused.value.java_exception.getMessage())
    assert f"e8-x/q/state/0/3/{name}" in text
    assert f"e7-x/q/state/0/3/{name}" in text
    assert "epoch 8" in text


def test_a_file_of_the_same_length_is_told_by_its_time(local: Local) -> None:
    local.inherit("state/0/3/17.delta")
    os.utime(local.old / "state/0/3/17.delta", (1_700_000_000, 1_700_000_000))

    with pytest.raises(Py4JJavaError, match="was replaced since the base of epoch 8"):
        local.read("state/0/3/17.delta")


def test_a_file_that_is_gone_is_told_with_its_place(local: Local) -> None:
    local.inherit("state/0/3/17.delta", UNIQUE)
    (local.old / "state/0/3/17.delta").unlink()
    (local.old / UNIQUE).unlink()

    for name in ("state/0/3/17.delta", UNIQUE):
        with pytest.raises(Py4JJavaError, match=f"is gone: the base of epoch 8 names .*e7-x/q/{name}") as gone:
            local.read(name)
        assert java_class(gone.value) == "java.io.FileNotFoundException"


def test_a_name_of_the_base_is_never_created_again(local: Local) -> None:
    local.inherit("offsets/4", "sources/0/9.compact")
    local.jvm.open_gate(f"hafile://{local.own.parent}")

    for name in ("offsets/4", "sources/0/9", "sources/0/9.compact"):
        with pytest.raises(Py4JJavaError, match="is named by the base of epoch 8") as lost:
            local.jvm.create(local.manager(name.rpartition("/")[0]), f"{local.uri}/{name}", b"again")
        assert java_class(lost.value) == "org.apache.hadoop.fs.FileAlreadyExistsException"


def test_state_of_the_same_version_is_written_beside_that_of_the_base(local: Local) -> None:
    local.inherit("state/0/3/17.zip")

    local.jvm.create(local.manager("state/0/3"), f"{local.uri}/state/0/3/17.zip", b"new", overwrite=True)

    assert local.read("state/0/3/17.zip") == "new"
    assert (local.old / "state/0/3/17.zip").read_bytes() == b"7 state/0/3/17.zip"


@pytest.mark.parametrize("name", ["a%b", "tab\tin", "line\nfeed", "carriage\rreturn", "ünï", "with blank", "a:b"])
def test_every_name_survives_its_escape(local: Local, name: str) -> None:
    local.inherit(f"sources/0/{name}")

    assert local.jvm.names(local.files, f"{local.uri}/sources/0") == [name]


def test_queries_and_jobs_may_be_called_as_spark_s_directories(jvm: ComponentJvm, tmp_path: Path) -> None:
    for key in ("work/state/e8/offsets", "work/metadata/e8/commits", "work/sources/e8/state", "work/0/e8/metadata"):
        directory, place = tmp_path / key, tmp_path / "old"
        directory.mkdir(parents=True)
        place.write_text("inherited")
        (directory / "_ha_base").write_bytes(base({"commits/3": ("old", 9, 0, "")}))
        files = jvm.files(jvm.conf(f"file://{tmp_path}"), f"hafile://{directory}")

        assert jvm.read(files, f"hafile://{directory}/commits/3") == b"inherited", key


def test_places_are_found_in_a_store_that_was_moved(jvm: ComponentJvm, tmp_path: Path) -> None:
    before = Local(jvm, jvm.conf(f"file://{tmp_path}/before"), tmp_path / "before")
    before.inherit("commits/3")
    before.root.rename(tmp_path / "after")
    after = Local(jvm, jvm.conf(f"file://{tmp_path}/after"), tmp_path / "after")

    assert after.read("commits/3") == "7 commits/3"


BAD: dict[str, Any] = {
    "another version": (base({}, version=2), "format version 2"),
    "no head": (b"name\tplace\t1\t1\t\nend 1\n", "its first line"),
    "empty": (b"", "its first line"),
    "no end": (base({"metadata": ("m", 1, 1, "")}).rpartition(b"end")[0], "half a file"),
    "wrong end": (base({"metadata": ("m", 1, 1, "")}).replace(b"end 1", b"end 2"), "half a file"),
    "cut end": (
        base({f"offsets/{n}": ("m", 1, 1, "") for n in range(12)}).replace(b"end 12\n", b"end 1"),
        "half a file",
    ),
    "cut line feed": (base({})[:-1], "half a file"),
    "twice": (base({"metadata": ("m", 1, 1, "")}).replace(b"end 1", b"metadata\tn\t1\t1\t\nend 2"), "a second time"),
    "upwards": (base({"offsets/../4": ("m", 1, 1, "")}), "not a path below"),
    "place upwards": (base({"metadata": ("../m", 1, 1, "")}), "not a path below"),
    "absolute place": (base({"metadata": ("/etc/m", 1, 1, "")}), "not a path below"),
    "bad escape": (base({}).replace(b"end 0", b"off%zz\tm\t1\t1\t\nend 1"), "is no escape"),
    "bad length": (base({}).replace(b"end 0", b"metadata\tm\tx\t1\t\nend 1"), "not a number"),
    "signed length": (base({}).replace(b"end 0", b"metadata\tm\t-1\t1\t\nend 1"), "not a number"),
    "small escape": (base({}).replace(b"end 0", b"offs%0a\tm\t1\t1\t\nend 1"), "is no escape"),
    "carriage return": (base({}).replace(b"end 0", b"metadata\r\tm\t1\t1\t\nend 1"), "carriage return"),
    "too few fields": (base({}).replace(b"end 0", b"metadata\tm\t1\nend 1"), "3 fields instead of 5"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_base_is_refused_and_named(local: Local, case: str) -> None:
    content, reason = BAD[case]
    local.own.mkdir(parents=True)
    (local.own / "_ha_base").write_bytes(content)

    with pytest.raises(Py4JJavaError, match=reason) as refused:
        local.read("metadata")

    assert f"{local.own}/_ha_base" in str(refused.value.java_exception.getMessage())


def test_a_base_without_a_storage_root_is_refused(jvm: ComponentJvm, tmp_path: Path) -> None:
    Local(jvm, None, tmp_path).inherit("metadata")
    conf = jvm.conf("")
    conf.unset("fs.ha.root")

    with pytest.raises(Py4JJavaError, match=r"fs\.ha\.root does not say"):
        Local(jvm, conf, tmp_path).read("metadata")


def test_a_base_in_another_file_system_than_its_root_is_refused(jvm: ComponentJvm, tmp_path: Path) -> None:
    Local(jvm, None, tmp_path).inherit("metadata")

    with pytest.raises(Py4JJavaError, match="in another file system"):
        Local(jvm, jvm.conf("s3a://bucket/x"), tmp_path).read("metadata")


def test_tokens_are_those_of_the_file_system_behind(local: Local) -> None:
    files = local.files

    assert files.getCanonicalServiceName() is None
    assert [child.getScheme() for child in files.getChildFileSystems()] == ["file"]
