"""Archives of a job: what is in one is checked before a name of it becomes a path."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.application.archives import check_archive, unpack_archive


def tar(path: Path, *members: tarfile.TarInfo | tuple[str, str]) -> Path:
    """Make a tarball of files (name, content) and of entries without content."""
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size, info.mode = len(member[1]), 0o644
                archive.addfile(info, io.BytesIO(member[1].encode()))
    return path


def entry(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """Return an entry without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o777
    return info


def test_a_packed_environment_keeps_its_programs_links_and_directories(tmp_path: Path) -> None:
    program = tarfile.TarInfo("./bin/python3.11")
    program.mode = 0o755
    packed = tar(
        tmp_path / "env.tar.gz",
        entry("./bin", tarfile.DIRTYPE),
        program,
        entry("./bin/python", tarfile.SYMTYPE, "python3.11"),
        entry("./bin/system", tarfile.SYMTYPE, "/usr/bin/env"),
        ("./lib/words.txt", "words"),
        entry("./lib/again.txt", tarfile.LNKTYPE, "./lib/words.txt"),
        entry("./empty", tarfile.DIRTYPE),
    )

    unpack_archive(packed, tmp_path / "environment")

    made = tmp_path / "environment"
    assert os.access(made / "bin" / "python", os.X_OK)
    assert (made / "bin" / "system").readlink() == Path("/usr/bin/env")
    assert (made / "lib" / "again.txt").read_text() == "words"
    assert not os.access(made / "lib" / "words.txt", os.X_OK)
    assert (made / "empty").is_dir()
    assert all(path.stat().st_mode & 0o077 == 0 for path in [made, *made.rglob("*")] if not path.is_symlink())
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_an_earlier_attempt_has_left_is_replaced(tmp_path: Path) -> None:
    packed = tar(tmp_path / "env.tgz", ("new.txt", "new"))
    (tmp_path / "environment").mkdir()
    (tmp_path / "environment" / "old.txt").touch()

    unpack_archive(packed, tmp_path / "environment")

    assert [path.name for path in (tmp_path / "environment").iterdir()] == ["new.txt"]


def test_a_zip_file_keeps_its_programs(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "tools.zip", "w") as archive:
        program = zipfile.ZipInfo("bin/run")
        program.external_attr = 0o755 << 16
        archive.writestr(program, "#!/bin/sh\n")
        archive.writestr("data/words.txt", "words")

    unpack_archive(tmp_path / "tools.zip", tmp_path / "tools")

    assert os.access(tmp_path / "tools" / "bin" / "run", os.X_OK)
    assert (tmp_path / "tools" / "data" / "words.txt").read_text() == "words"


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "absolute": (lambda path: tar(path, ("/etc/evil", "x")), "is outside the archive"),
    "above": (lambda path: tar(path, ("good", "x"), ("a/../../evil", "x")), "is outside the archive"),
    "through a link": (
        lambda path: tar(path, entry("a", tarfile.SYMTYPE, "/opt"), ("a/evil", "x")),
        "is behind a link in the archive",
    ),
    "over a link": (
        lambda path: tar(path, entry("a", tarfile.SYMTYPE, "/opt/evil"), ("a", "x")),
        "is behind a link in the archive",
    ),
    "hard link": (
        lambda path: tar(path, entry("a", tarfile.LNKTYPE, "../../etc/passwd")),
        "which is no earlier file",
    ),
    "device": (lambda path: tar(path, entry("null", tarfile.CHRTYPE)), "neither file, directory nor link"),
    "pipe": (lambda path: tar(path, entry("pipe", tarfile.FIFOTYPE)), "neither file, directory nor link"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_archive_that_would_write_elsewhere_is_refused_before_anything_is_written(case: str, tmp_path: Path) -> None:
    make, reason = BAD[case]
    packed = make(tmp_path / "bad.tar.gz")

    for refuse in (check_archive, lambda path: unpack_archive(path, tmp_path / "out" / "bad")):
        with pytest.raises(ConfigurationError, match=reason):
            refuse(packed)

    assert [path.name for path in tmp_path.iterdir()] == ["bad.tar.gz"]


def test_a_link_in_a_zip_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")

    with pytest.raises(ConfigurationError, match="neither file, directory nor link"):
        check_archive(tmp_path / "bad.zip")


@pytest.mark.parametrize("name", ["env.tar.gz", "env.zip"])
def test_an_archive_that_is_cut_is_refused(name: str, tmp_path: Path) -> None:
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a", os.urandom(5000))
    else:
        tar(tmp_path / name, ("a", os.urandom(5000).hex()))
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:2000])

    with pytest.raises(ConfigurationError, match=f"the archive '{name}' cannot be unpacked.*Pack it again"):
        check_archive(tmp_path / name)


def test_what_spark_would_only_copy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "env.tar.xz").touch()

    with pytest.raises(ConfigurationError, match=r"Spark does not unpack the archive .*\.tar\.gz"):
        check_archive(tmp_path / "env.tar.xz")
