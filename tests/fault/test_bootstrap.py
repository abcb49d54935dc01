"""What is missing on a machine is said in one sentence, before anything is made (every make target asks first)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


BOOTSTRAP = Path(__file__).parents[2] / ".ci" / "bootstrap"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in which nothing was installed yet."""
    clone = tmp_path / "clone"
    (clone / ".ci").mkdir(parents=True)
    shutil.copy(BOOTSTRAP, clone / ".ci" / "bootstrap")
    return clone


@pytest.fixture
def small_disk(clone: Path) -> Iterator[Path]:
    """The clone's build folder on a disk of 64 MB."""
    build = clone / "build"
    build.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(build)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield build
    subprocess.run(["umount", str(build)], check=True)


def _bootstrap(clone: Path, **environment: str) -> tuple[int, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYTHON")}
    done = subprocess.run(
        ["/bin/sh", str(clone / ".ci" / "bootstrap")],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def _tools_without_java(directory: Path) -> Path:
    """Return a directory of programs that has all that the script needs, but no Java."""
    directory.mkdir()
    for name in ("dirname", "mkdir", "cat", "cksum", "df", "awk", "sed", "head", "python3"):
        found = shutil.which(name)
        assert found, name
        (directory / name).symlink_to(found)
    return directory


def test_no_java(clone: Path, tmp_path: Path) -> None:
    code, said = _bootstrap(clone, PATH=str(_tools_without_java(tmp_path / "bin")))

    assert code == 1
    assert said == (
        "No Java was found: Spark 4 needs Java 17 or newer; "
        "install it (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME.\n"
    )


def test_a_java_that_is_too_old(clone: Path, tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("""#!/bin/sh\necho 'openjdk version "11.0.2" 2019-01-15' >&2\n""")
    java.chmod(0o755)

    code, said = _bootstrap(clone, JAVA_HOME=str(tmp_path / "jdk"))

    assert code == 1
    assert said == f"Java 11 was found at {java}: Spark 4 needs Java 17 or newer; install it and set JAVA_HOME to it.\n"


def test_no_room_on_the_disk(clone: Path, small_disk: Path) -> None:
    (clone / "pyproject.toml").touch()
    (clone / "constraints.txt").touch()

    code, said = _bootstrap(clone)

    assert code == 1
    assert "MB are free below" in said
    assert "need 4 GB; make room or clone onto another disk." in said
    assert list(small_disk.iterdir()) == []


def test_no_python_that_fits(clone: Path, tmp_path: Path) -> None:
    tools = _tools_without_java(tmp_path / "bin")
    (tools / "python3").unlink()
    (tools / "java").symlink_to(shutil.which("java") or "java")
    (clone / "pyproject.toml").touch()
    (clone / "constraints.txt").touch()

    code, said = _bootstrap(clone, PATH=str(tools))

    assert code == 1
    assert "No Python 3.10 to 3.13 was found: install one" in said
