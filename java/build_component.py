"""Builds the jar of the component in Spark's JVM: ``python java/build_component.py``. Needs a JDK and nothing else.

The jar lies in the package, where the wheel takes it from and where a checkout finds it. It says from which sources it
was made, and is made again when they have changed. Built by one JDK it always has the same bytes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


ROOT = Path(__file__).resolve().parents[1]
RELEASE = "17"  # the oldest Java that Spark 4 runs on

_PLACE = Path("airflow_provider_ha") / "driver" / "jvm"
_VERSION_RESOURCE = "io/github/sparkha/component-version"
_MANIFEST = "META-INF/MANIFEST.MF"
_TIME = (1980, 1, 1, 0, 0, 0)  # of every member
_READABLE = 0o644 << 16


class NoJdkError(Exception):
    """There is no Java compiler."""


class CompileError(Exception):
    """The sources are not a program."""


def build(root: Path = ROOT) -> Path:
    """Return the jar of the sources as they are now; of several processes that ask for it one builds it.

    :param root: The repository.
    :raises NoJdkError: It has to be built, and there is no compiler.
    :raises CompileError: The compiler refuses the sources.
    """
    place = root / _PLACE
    jar = place / f"spark-ha-component-{version(root)}.jar"
    digest = digest_of(root)
    if made_from(jar) == digest:
        return jar
    lock_file = root / "build" / "component.lock"
    lock_file.parent.mkdir(exist_ok=True)
    with lock_file.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if made_from(jar) != digest:
            _build(root, jar, digest)
    return jar


def version(root: Path = ROOT) -> str:
    """Return the release of the package, which is the release of the component."""
    text = (root / "airflow_provider_ha" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise CompileError("airflow_provider_ha/_version.py does not say which release this is")
    return found[1]


def digest_of(root: Path) -> str:
    """Return the digest of all that the jar is made from."""
    told = hashlib.sha256(version(root).encode())
    files = [*(root / "java").rglob("*.java"), Path(__file__)]
    for file in sorted(files):
        told.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return told.hexdigest()


def made_from(jar: Path) -> str:
    """Return the digest of what a jar was made from; empty when there is none."""
    try:
        with zipfile.ZipFile(jar) as archive:
            found = re.search(rb"^Sources: (\w+)\r?$", archive.read(_MANIFEST), re.MULTILINE)
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""
    return found[1].decode() if found else ""


def compile_to(target: Path, root: Path = ROOT, class_path: str = "") -> None:
    """Compile the sources.

    :param class_path: Of the real Hadoop and Spark; by default the stubs stand for them.
    :raises NoJdkError: There is no compiler.
    :raises CompileError: The compiler refuses the sources.
    """
    sources = sorted(map(str, (root / "java" / "src").rglob("*.java")))
    beside = ["-cp", class_path] if class_path else ["-implicit:none", "-sourcepath", str(root / "java" / "stubs")]
    command = [_compiler(), "--release", RELEASE, "-g:source,lines", "-encoding", "UTF-8", *beside]
    done = subprocess.run([*command, "-d", str(target), *sources], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise CompileError(done.stdout + done.stderr)


def _compiler() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javac", path=f"{home}/bin") if home else shutil.which("javac")
    if found is None:
        where = f"{home}/bin" if home else "the path"
        raise NoJdkError(f"there is no javac in {where}: install a JDK (Debian: apt install openjdk-17-jdk-headless)")
    return found


def _build(root: Path, jar: Path, digest: str) -> None:
    with tempfile.TemporaryDirectory(prefix="component-", dir=root / "build") as folder:
        classes, made = Path(folder) / "classes", Path(folder) / jar.name
        compile_to(classes, root)
        manifest = f"Manifest-Version: 1.0\nImplementation-Version: {version(root)}\nSources: {digest}\n"
        members = {_MANIFEST: manifest.encode(), _VERSION_RESOURCE: version(root).encode()}
        members |= {path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")}
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in (_MANIFEST, *sorted(members.keys() - {_MANIFEST})):
                member = zipfile.ZipInfo(name, _TIME)
                member.compress_type, member.external_attr = zipfile.ZIP_DEFLATED, _READABLE
                archive.writestr(member, members[name])
        for old in jar.parent.glob("*.jar"):
            old.unlink()
        made.replace(jar)


def main() -> int:
    """Build it, and say where it is; without a JDK say what does not work then."""
    try:
        print(build())  # noqa: T201  # what it is called for
    except NoJdkError as error:
        print(f"{error}; without it no job can work on s3:// or hdfs://", file=sys.stderr)  # noqa: T201  # the same
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
