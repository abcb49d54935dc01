"""The jar for Spark's JVM: built from the sources alone, always the same, and found in the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_ha import __version__
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.conf import component_jar
from java.build_component import ROOT, CompileError, NoJdkError, build, compile_to, made_from
from tests.support.s3.s3a_jars import s3a_jars


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the jar is made from, and the jar of this checkout: a build takes seconds."""
    folder = tmp_path_factory.mktemp("component")
    shutil.copytree(ROOT / "java", folder / "java")
    for name in ("airflow_provider_ha/_version.py", "airflow_provider_ha/driver/jvm/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    jar = build()
    shutil.copy(jar, folder / jar.relative_to(ROOT))
    return folder


@pytest.fixture
def checkout(built: Path, tmp_path: Path) -> Path:
    """A copy of both, to be changed."""
    shutil.copytree(built, tmp_path / "checkout")
    return tmp_path / "checkout"


@pytest.mark.long
def test_two_builds_have_the_same_bytes_and_a_jar_of_another_release_does_not_stay(checkout: Path) -> None:
    first = build(checkout)
    content = first.read_bytes()
    old = first.rename(first.with_name("spark-ha-component-0.0.1.jar"))

    assert build(checkout).read_bytes() == content
    assert not old.exists()


def test_it_is_found_where_the_build_of_a_checkout_puts_it() -> None:
    assert component_jar() == build()


@pytest.mark.long
def test_it_is_built_again_when_a_source_changes(checkout: Path) -> None:
    before = made_from(build(checkout))
    source = checkout / "java" / "src" / "io" / "github" / "sparkha" / "Uptime.java"
    source.write_text(source.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")

    assert made_from(build(checkout)) != before


def test_its_members_have_one_time_and_it_says_its_release(built: Path) -> None:
    with zipfile.ZipFile(build(built)) as jar:
        assert {member.date_time for member in jar.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert jar.read("io/github/sparkha/component-version").decode() == __version__


def test_the_stubs_are_not_in_it(built: Path) -> None:
    assert all(name.startswith("io/github/sparkha/") for name in _classes(build(built)))


@pytest.mark.long
def test_the_stubs_match_the_real_classes(built: Path, tmp_path: Path) -> None:
    import pyspark

    own = f"{Path(pyspark.__file__).parent}/jars/*"
    compile_to(tmp_path, class_path=":".join([own, *map(str, s3a_jars())]))

    real = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.class")}
    assert real == _classes(build(built))


def test_a_missing_compiler_is_reported_with_the_package_to_install(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(checkout).unlink()
    monkeypatch.setenv("JAVA_HOME", str(checkout))

    with pytest.raises(NoJdkError, match="install a JDK"):
        build(checkout)


def test_sources_that_are_no_program_are_refused(checkout: Path) -> None:
    (checkout / "java" / "src" / "io" / "github" / "sparkha" / "Uptime.java").write_text("class", encoding="utf-8")

    with pytest.raises(CompileError, match=r"Uptime\.java"):
        build(checkout)


def test_an_installation_without_the_jar_says_so_when_it_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Install the wheel, or install a JDK"):
        component_jar(tmp_path)


def test_the_jar_of_the_checkout_is_found() -> None:
    assert component_jar() == build()


def test_the_build_says_where_the_jar_is() -> None:
    program = ROOT / "java" / "build_component.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == str(build())


def _classes(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as jar:
        return {name: jar.read(name) for name in jar.namelist() if name.endswith(".class")}
