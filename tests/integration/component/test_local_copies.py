"""Copies of state files on the local disk: made after the primary, checked before they are read, and never an error."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from airflow_provider_ha.testing.waiting import wait_until
from tests.integration.component.conftest import Copies, Counted, Local
from tests.support.spark.component_jvm import base, component_jvm


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
ID = "0b7e6f1a-4f98-49f2-9844-b641db3621eb"
VERSION, CHANGES = f"state/0/3/17_{ID}.zip", f"state/0/3/17_{ID}.changelog"
TABLE = f"state/0/3/SSTs/000008-{ID}.sst"


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return what mounts a small disk."""
    places: list[Path] = []

    def mount(size: str = "64k") -> Path:
        place = tmp_path / f"disk-{len(places)}"
        place.mkdir(mode=0o700)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", place], check=False)
        if done.returncode:
            pytest.skip("no disk can be mounted here")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", place], check=True)


def zipped(path: Path, *tables: str) -> bytes:
    """Return a version as Spark writes it: which tables it names."""
    named = [{"localFileName": table[:6] + ".sst", "dfsSstFileName": table, "sizeBytes": 1} for table in tables]
    with zipfile.ZipFile(path, "w") as version:
        version.writestr("metadata", f"v1\n{json.dumps({'sstFiles': named, 'numKeys': 1})}")
    return path.read_bytes()


def test_a_version_has_a_copy_with_the_same_bytes_for_its_user_only(copies: Copies) -> None:
    copies.write(VERSION, b"a version")

    assert copies.place(VERSION).read_bytes() == b"a version"
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in (copies.folder, copies.place(VERSION).parent))


def test_a_table_and_its_copy_are_one_file(copies: Copies, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"rows")

    copies.upload(TABLE, tmp_path / "table")
    copies.download(TABLE, tmp_path / "fetched")

    inodes = {path.stat().st_ino for path in (tmp_path / "table", copies.place(TABLE), tmp_path / "fetched")}
    assert len(inodes) == 1


def test_on_another_disk_a_table_is_copied(local: Local, mounted: Callable[..., Path], tmp_path: Path) -> None:
    copies = Copies(local, mounted("4m") / "copies")
    (tmp_path / "table").write_bytes(b"rows")

    copies.upload(TABLE, tmp_path / "table")
    copies.lose(TABLE)
    copies.download(TABLE, tmp_path / "fetched")

    assert copies.place(TABLE).stat().st_nlink == 1
    assert (tmp_path / "fetched").read_bytes() == b"rows"


@pytest.mark.parametrize("name", [VERSION, CHANGES, f"{VERSION}.crc", f"state/0/3/left-keyToNumValues/17_{ID}.zip"])
def test_a_copy_is_read_in_the_place_of_its_primary(copies: Copies, counted: Counted, name: str) -> None:
    copies.write(name)
    copies.lose(name)

    assert copies.read(name) == name.encode()
    assert (counted["copy_read"], counted["copy_read_bytes"]) == (1, len(name))


def test_a_file_of_an_earlier_epoch_has_its_copy_under_that_epoch(copies: Copies) -> None:
    copies.local.inherit(VERSION)

    first = copies.read(VERSION)
    (copies.local.old / VERSION).unlink()

    assert copies.read(VERSION) == first == copies.place(VERSION, "e7-x").read_bytes()


def flip(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-1] + b"!")


def cut(copy: Path) -> None:
    copy.write_bytes(copy.read_bytes()[:-1])


def without_note(copy: Path) -> None:
    note(copy).unlink()


def of_another_format(copy: Path) -> None:
    note(copy).write_text(note(copy).read_text().replace("1 ", "2 ", 1))


def empty_note(copy: Path) -> None:
    note(copy).write_text("")


def of_another_file(copy: Path) -> None:
    note(copy).write_text(note(copy).read_text().replace(copy.name, f"1{copy.name}"))


def gone(copy: Path) -> None:
    copy.unlink()


def a_link(copy: Path) -> None:
    aside = copy.with_name("elsewhere")
    copy.rename(aside)
    copy.symlink_to(aside)


def a_link_to_a_loop(copy: Path) -> None:
    note(copy).unlink()
    note(copy).symlink_to(note(copy))


def note(copy: Path) -> Path:
    return copy.with_name(copy.name + ".note")


DAMAGES = [flip, cut, without_note, of_another_format, of_another_file, empty_note, gone, a_link, a_link_to_a_loop]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_copy_in_doubt_is_not_read_and_made_again(copies: Copies, damage: Callable[[Path], None]) -> None:
    copies.write(VERSION, b"a version")
    (copies.local.own / VERSION).write_bytes(b"a primary")
    damage(copies.place(VERSION))

    assert copies.read(VERSION) == b"a primary"
    if damage is not a_link and damage is not a_link_to_a_loop:  # what is not the component's stays in the way
        copies.lose(VERSION)
        assert copies.read(VERSION) == b"a primary"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_in_doubt_is_fetched(copies: Copies, damage: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"rows")
    copies.upload(TABLE, tmp_path / "table")
    (tmp_path / "table").unlink()  # or the damage would be done to both names
    (copies.local.own / TABLE).write_bytes(b"ROWS")
    damage(copies.place(TABLE))

    copies.download(TABLE, tmp_path / "fetched")

    assert (tmp_path / "fetched").read_bytes() == b"ROWS"


# A disk that fails: reads of files below a directory end with EIO.
BROKEN_DISK = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t read(int file, void *bytes, size_t size) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length < 0 ? 0 : length] = 0;
    if (strncmp(name, getenv("BROKEN_DISK"), strlen(getenv("BROKEN_DISK"))) == 0) {
        errno = EIO;
        return -1;
    }
    return ((ssize_t (*)(int, void *, size_t)) dlsym(RTLD_NEXT, "read"))(file, bytes, size);
}
"""


@pytest.mark.long
def test_copies_on_a_disk_that_fails_are_not_read(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "table").write_bytes(b"rows")
    copies.upload(TABLE, tmp_path / "table")
    copies.write(VERSION, b"a version")
    (tmp_path / "broken.c").write_text(BROKEN_DISK)
    library, source = tmp_path / "broken.so", tmp_path / "broken.c"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("BROKEN_DISK", str(copies.folder))

    with component_jvm() as jvm:
        conf = jvm.conf(f"file://{copies.local.root}")
        broken = Copies(Local(jvm, conf, copies.local.root), copies.folder)
        broken.download(TABLE, tmp_path / "fetched")
        assert broken.read(VERSION) == b"a version"
        assert jvm.counts()["copy_error"] > 0
        assert "copy_read" not in jvm.counts()

    assert (tmp_path / "fetched").read_bytes() == b"rows"


def test_a_directory_in_the_place_of_a_copy_stays(copies: Copies, counted: Counted) -> None:
    copies.place(VERSION).mkdir(parents=True)
    (copies.place(VERSION) / "of-another").touch()
    copies.folder.chmod(0o700)
    (copies.folder / "spark-ha-copies").touch()

    copies.write(VERSION, b"a version")

    assert copies.read(VERSION) == b"a version"
    assert (copies.place(VERSION) / "of-another").exists()
    assert counted["copy_error"] > 0


def test_an_error_of_the_primary_is_the_error(copies: Copies) -> None:
    copies.write(VERSION)
    copies.lose(VERSION)
    copies.place(VERSION).unlink()

    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        copies.read(VERSION)


def test_a_primary_that_is_refused_leaves_no_copy(copies: Copies) -> None:
    (copies.local.own / VERSION).parent.mkdir(parents=True)
    (copies.local.own / VERSION).write_bytes(b"of another writer")
    manager = copies.jvm.manager(copies.conf, f"{copies.local.uri}/state/0/3")

    with pytest.raises(Py4JJavaError, match="was created by another writer"):
        copies.jvm.create(manager, f"{copies.local.uri}/{VERSION}", b"of this one")

    assert copies.held() == []


def test_a_version_that_is_given_up_leaves_no_copy(copies: Copies) -> None:
    stream = copies.jvm.manager(copies.conf, f"{copies.local.uri}/state/0/3").createAtomic(
        copies.jvm.path(f"{copies.local.uri}/{VERSION}"), True
    )
    stream.write(b"half")
    stream.cancel()

    assert copies.held() == []


@pytest.mark.parametrize(
    "name",
    ["state/0/3/17.zip", "state/0/3/17.delta", "state/0/3/17.changelog", "state/0/_metadata/metadata", "offsets/4"],
)
def test_a_name_that_is_written_again_has_no_copy(copies: Copies, name: str) -> None:
    copies.jvm.open_gate(f"hafile://{copies.local.own.parent}")
    copies.write(name)

    assert copies.read(name) == name.encode()
    assert not copies.folder.exists()


def test_without_the_option_there_is_no_directory(copies: Copies) -> None:
    manager = copies.jvm.manager(copies.jvm.conf(f"file://{copies.local.root}"), f"{copies.local.uri}/state/0/3")
    copies.jvm.create(manager, f"{copies.local.uri}/{VERSION}", b"a version", overwrite=True)

    assert not copies.folder.exists()


def foreign_files(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "of-another").write_text("precious")


def open_to_others(folder: Path) -> None:
    folder.mkdir(mode=0o755)


def link_elsewhere(folder: Path) -> None:
    folder.with_name("elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.with_name("elsewhere"))


def of_another_user(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, -1)


def replaceable(folder: Path) -> None:
    folder.parent.chmod(0o777)


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (foreign_files, "it has files of others: name an empty directory"),
        (open_to_others, "others can enter it: chmod 700"),
        (link_elsewhere, "it is a link or no directory"),
        (of_another_user, "it belongs to another user"),
        (replaceable, "others can replace"),
    ],
)
def test_a_directory_that_is_not_the_user_s_is_refused_and_not_changed(
    copies: Copies, tmp_path: Path, prepare: Callable[[Path], None], reason: str
) -> None:
    if prepare is of_another_user and os.geteuid() != 0:
        pytest.skip("only root can make it")
    place = tmp_path / "above"
    place.mkdir(mode=0o700)
    refused = Copies(copies.local, place / "copies")
    prepare(refused.folder)
    before = sorted(place.rglob("*"))

    refused.write(VERSION, b"a version")

    assert refused.read(VERSION) == b"a version"
    assert sorted(place.rglob("*")) == before
    assert reason in refused.jvm.classes.StateReads.own().get("")


def test_a_directory_that_is_removed_meanwhile_is_made_again(copies: Copies) -> None:
    manager = copies.jvm.manager(copies.conf, f"{copies.local.uri}/state/0/3")
    stream = manager.createAtomic(copies.jvm.path(f"{copies.local.uri}/{VERSION}"), True)
    stream.write(b"a version")
    subprocess.run(["rm", "-r", copies.folder], check=True)
    stream.close()
    copies.write(CHANGES)

    assert (copies.local.own / VERSION).read_bytes() == b"a version"
    assert copies.held() == [Path(CHANGES).name]


def test_a_full_disk_costs_the_copies_only(local: Local, mounted: Callable[..., Path], counted: Counted) -> None:
    copies = Copies(local, mounted("64k") / "copies")
    copies.write(CHANGES, bytes(100_000))
    copies.write(VERSION, b"a version")

    assert [(local.own / name).stat().st_size for name in (CHANGES, VERSION)] == [100_000, len(b"a version")]
    assert copies.held() == []
    assert (counted["copy_error"], counted["copy_suspended"]) == (1, 1)
    assert "No space left on device" in copies.jvm.classes.StateReads.own().get("")


def test_half_of_the_free_space_is_never_used(local: Local, mounted: Callable[..., Path], counted: Counted) -> None:
    copies = Copies(local, mounted("1m") / "copies")

    copies.write(VERSION, bytes(600_000))

    assert copies.held() == []
    assert (counted["copy_error"], counted["copy_suspended"]) == (0, 1)


def test_a_disk_that_becomes_read_only_costs_the_copies_only(
    local: Local, mounted: Callable[..., Path], counted: Counted
) -> None:
    disk = mounted("1m")
    copies = Copies(local, disk / "copies")
    copies.write(CHANGES, b"a version")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)

    for number in range(5):
        copies.write(f"state/0/{number}/1_{ID}.zip", b"another")
    copies.lose(CHANGES)

    assert copies.read(CHANGES) == b"a version"  # it can still be read
    assert (counted["copy_made"], counted["copy_error"], counted["copy_suspended"]) == (1, 1, 1)


def test_an_executor_reports_what_its_copies_have_cost(copies: Copies) -> None:
    def reported() -> tuple[int, ...]:
        return tuple(map(int, copies.jvm.classes.StateReads.own().get("made").split()))

    before = reported()
    copies.write(CHANGES, b"a version")
    size, microseconds = (after - earlier for after, earlier in zip(reported(), before, strict=True))

    assert size == len(b"a version")
    assert microseconds > 0


def test_three_errors_in_a_row_suspend_the_copies(copies: Copies, counted: Counted) -> None:
    copies.write(CHANGES)
    for number in range(4, 10):
        copies.place(f"state/0/{number}").write_text("in the way")
        copies.write(f"state/0/{number}/1_{ID}.zip")

    assert (counted["copy_error"], counted["copy_suspended"]) == (3, 1)


def test_above_the_quota_the_partitions_used_the_longest_ago_go_first(copies: Copies) -> None:
    small = Copies(copies.local, copies.folder, megabytes=1)
    for number in range(4):
        small.write(f"state/0/{number}/1_{ID}.zip", bytes(300_000))
        time.sleep(0.01)  # the times of files have milliseconds
        if number == 2:
            small.read(f"state/0/0/1_{ID}.zip")

    assert [bool(small.held(f"state/0/{number}")) for number in range(4)] == [True, False, True, True]


def test_a_file_above_the_quota_has_no_copy(copies: Copies, counted: Counted) -> None:
    small = Copies(copies.local, copies.folder, megabytes=1)

    small.write(VERSION, bytes(2_000_000))

    assert small.held() == []
    assert counted["copy_suspended"] == 1


def test_a_partition_keeps_two_versions_and_the_tables_that_they_name(copies: Copies, tmp_path: Path) -> None:
    for version in range(1, 51):
        table = f"{version:06d}-{ID}.sst"
        (tmp_path / table).write_bytes(b"rows")
        copies.upload(f"state/0/3/SSTs/{table}", tmp_path / table)
        older = f"{version - version % 10:06d}-{ID}.sst"
        named = {table, older} if version > 9 else {table}
        copies.write(f"state/0/3/{version}_{ID}.zip.crc")
        copies.write(f"state/0/3/{version}_{ID}.zip", zipped(tmp_path / "zip", *named))

    assert copies.held() == sorted(
        [f"000040-{ID}.sst", f"000049-{ID}.sst", f"000050-{ID}.sst"]
        + [f"{version}_{ID}.zip{end}" for version in (49, 50) for end in ("", ".crc")]
    )


def test_a_partition_with_a_changelog_keeps_the_changes_after_its_snapshot(copies: Copies, tmp_path: Path) -> None:
    for version in range(1, 26):
        copies.write(f"state/0/3/{version}_{ID}.changelog")
        if version % 10 == 0:
            copies.write(f"state/0/3/{version}_{ID}.zip", zipped(tmp_path / "zip"))

    expected = [f"20_{ID}.zip", *(f"{version}_{ID}.changelog" for version in range(20, 26))]
    assert copies.held() == sorted(expected)


def test_a_new_epoch_removes_what_it_has_made_needless_in_the_one_before(copies: Copies, tmp_path: Path) -> None:
    names = [f"state/0/3/{version}_{ID}.zip" for version in (4, 5)]
    copies.local.inherit(*names)
    for name in names:
        (copies.local.old / name).write_bytes(zipped(tmp_path / "zip"))
        copies.read(name)

    copies.write(f"state/0/3/6_{ID}.zip", zipped(tmp_path / "zip"))

    assert copies.held(epoch="e7-x") == [f"5_{ID}.zip"]


def test_copies_that_the_base_does_not_name_are_removed_with_nothing_else(copies: Copies) -> None:
    copies.write(VERSION)
    for epoch in ("e5-x", "e7-x"):
        copies.place(VERSION, epoch).parent.mkdir(parents=True)
        copies.place(VERSION, epoch).write_bytes(b"of a run that is over")
    foreign = copies.place("state/0/3/of-another", "e5-x")
    foreign.write_text("precious")
    next_epoch = copies.local.own.parent.with_name("e9-x") / "q"
    next_epoch.mkdir(parents=True)
    entry = (f"jobs/j/e7-x/q/{VERSION}", 1, 0, "")
    (next_epoch / "_ha_base").write_bytes(base({VERSION: entry}, epoch=9))

    manager = copies.jvm.manager(copies.conf, f"hafile://{next_epoch}/state/0/3")
    copies.jvm.create(manager, f"hafile://{next_epoch}/state/0/3/18_{ID}.changelog", b"x", overwrite=True)

    assert copies.held(epoch="e5-x") == ["of-another"]
    assert copies.held(epoch="e8-x") == []
    assert copies.place(VERSION, "e7-x").exists()


def test_copies_that_nobody_used_for_a_week_are_removed(copies: Copies) -> None:
    for number in (1, 2):
        copies.write(f"state/0/{number}/1_{ID}.zip")
    old = note(copies.place(f"state/0/1/1_{ID}.zip"))
    os.utime(old, (time.time() - 8 * 86_400,) * 2)

    Copies(copies.local, copies.folder, megabytes=9_999).write(f"state/0/3/1_{ID}.zip")  # as another JVM would begin

    wait_until(lambda: not copies.held("state/0/1"), timeout=20, what="the removal")
    assert copies.held("state/0/2") == copies.held("state/0/3") == [f"1_{ID}.zip"]
