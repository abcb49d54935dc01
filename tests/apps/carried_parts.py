"""Makes what travels with the application ``carried`` and a repository does not hold."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.apps import parts


APPLICATION = Path(__file__).parent / "carried"
PACKAGE = "org.example:carried:1.0"
_CLASS = 'package example; public class {name} {{ public static String word() {{ return "{word}"; }} }}'
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>carried</artifactId><version>1.0</version></project>"""
# Without the repositories that Spark knows: what is asked for is only in that of the job.
_IVY = '<ivysettings><settings defaultResolver="none"/><resolvers><chain name="none"/></resolvers></ivysettings>'


@dataclass(frozen=True, slots=True)
class Carried:
    """What travels.

    :param repository: Maven repository of :data:`PACKAGE`.
    :param ivy_settings: File with Ivy's settings.
    :param environment: A packed environment of this Python.
    :param texts: An archive.
    """

    py_files: tuple[str, ...]
    jar: Path
    repository: Path
    ivy_settings: Path
    environment: Path
    texts: Path


def build(directory: Path) -> Carried:
    """Make all of it in *directory*."""
    built = parts.build(directory / "python")
    repository = directory / "repository"
    released = repository / "org" / "example" / "carried" / "1.0"
    released.mkdir(parents=True)
    (released / "carried-1.0.pom").write_text(_POM)
    _jar(released / "carried-1.0.jar", "OfPackage", "maven package")
    _jar(directory / "of_jar.jar", "OfJar", "jar")
    (directory / "ivysettings.xml").write_text(_IVY)
    texts = directory / "texts.zip"
    with zipfile.ZipFile(texts, "w") as archive:
        archive.writestr("deep/word.txt", "archive")
    return Carried(
        py_files=built.py_files,
        jar=directory / "of_jar.jar",
        repository=repository,
        ivy_settings=directory / "ivysettings.xml",
        environment=_environment(directory / "environment"),
        texts=texts,
    )


def _jar(target: Path, name: str, word: str) -> None:
    classes = target.with_name(f"{name}-classes")
    classes.mkdir()
    source = classes / f"{name}.java"
    source.write_text(_CLASS.format(name=name, word=word))
    subprocess.run(["javac", "-d", str(classes), str(source)], check=True)
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(classes / "example" / f"{name}.class", f"example/{name}.class")


def _environment(root: Path) -> Path:
    """Pack an environment with one module, as venv-pack does: relative names, and a link to the Python of the host."""
    venv.create(root, symlinks=True)
    site_packages = root / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (site_packages / "packed.py").write_text('WORD = "packed environment"\n')
    target = root.with_name("environment.tar.gz")
    with tarfile.open(target, "w:gz") as archive:
        archive.add(root, arcname=".")
    return target
