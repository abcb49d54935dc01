"""What Spark deletes below a checkpoint's directories stays: bases of later epochs may name it."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import Local
from tests.support.spark.component_jvm import ComponentJvm


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
COLLECTED = ("offsets/4", "commits/3", "sources/0/9.compact", "state/0/3/17.zip", "state/0/3/17.delta.crc")


@pytest.mark.parametrize("name", COLLECTED)
def test_a_delete_is_left_to_the_collector_and_counted(local: Local, name: str) -> None:
    local.write(name)
    before = local.jvm.counts().get("delete_left", 0)

    local.manager(name.rpartition("/")[0]).delete(local.jvm.path(f"{local.uri}/{name}"))

    assert local.read(name) == f"8 {name}"
    assert local.jvm.counts()["delete_left"] == before + 1


@pytest.mark.parametrize("name", ["state", "state/0/3", "", "offsets"])
def test_directories_are_left_as_well(local: Local, name: str) -> None:
    local.write("state/0/3/17.zip")
    local.write("offsets/4")

    local.files.delete(local.jvm.path(f"{local.uri}/{name}".rstrip("/")), True)

    assert (local.own / "state/0/3/17.zip").exists()
    assert (local.own / "offsets/4").exists()


def test_hidden_files_are_removed(local: Local) -> None:
    local.write("offsets/.4.0b7e6f1a.tmp")

    local.files.delete(local.jvm.path(f"{local.uri}/offsets/.4.0b7e6f1a.tmp"), False)

    assert not (local.own / "offsets/.4.0b7e6f1a.tmp").exists()


@pytest.mark.parametrize("name", ["17.zip", "17.delta"])
def test_a_name_that_was_deleted_is_written_again(local: Local, name: str) -> None:
    """Format 1: a batch that is executed again deletes and writes the version that it wrote before, in one JVM."""
    local.inherit(f"state/0/3/{name}")
    manager, files, uri = local.manager("state/0/3"), local.files, f"{local.uri}/state/0/3/{name}"
    for content in (b"first", b"second"):
        local.jvm.create(manager, uri, content, overwrite=True)
        manager.delete(local.jvm.path(uri))

    assert local.jvm.names(files, f"{local.uri}/state/0/3") == [name]
    assert local.jvm.read(files, uri) == b"second"
    assert (local.old / "state/0/3" / name).read_bytes() == f"7 state/0/3/{name}".encode()


@pytest.fixture
def owner(jvm: ComponentJvm, tmp_path: Path) -> Local:
    """A root where Spark deletes by itself."""
    return Local(jvm, jvm.conf(f"file://{tmp_path}", {"fs.ha.deletes": "own"}), tmp_path)


def test_with_own_deletes_only_own_files_go(owner: Local) -> None:
    owner.inherit("offsets/3", "offsets/4")
    owner.write("offsets/5")
    files = owner.files

    for name in ("offsets/3", "offsets/5"):
        files.delete(owner.jvm.path(f"{owner.uri}/{name}"), False)

    assert owner.jvm.names(files, f"{owner.uri}/offsets") == ["4"]
    assert not (owner.own / "offsets/5").exists()
    assert (owner.old / "offsets/3").exists()


def test_another_way_to_delete_is_refused(jvm: ComponentJvm, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match=r"fs\.ha\.deletes is all: it can be collector or own"):
        jvm.files(jvm.conf(f"file://{tmp_path}", {"fs.ha.deletes": "all"}), f"hafile://{tmp_path}")
