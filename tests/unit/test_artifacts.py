"""What belongs to an application travels with it, and bad input changes nothing."""

from __future__ import annotations

import io
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError
from airflow_provider_ha.jobs.application.application_files import collect_application
from airflow_provider_ha.jobs.application.artifacts import fetch_application, upload_application
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.storage.blobs import get_blob, put_blob
from airflow_provider_ha.storage.local_store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application with a sibling module, a package with data, and a module that no module imports."""
    directory = tmp_path / "app"
    (directory / "package" / "deep").mkdir(parents=True)
    (directory / "app.py").write_text(
        "import sys\nimport sibling\nfrom package.deep import value\n"
        "print(sibling.NAME, value.read(), open('data.csv').read(), sys.argv[1])\n"
    )
    (directory / "sibling.py").write_text("import second\nNAME = second.NAME\n")
    (directory / "second.py").write_text("NAME = 'sibling'\n")
    (directory / "unused.py").write_text("")
    (directory / "package" / "__init__.py").write_text("")
    (directory / "package" / "deep" / "value.py").write_text(
        "import pathlib\ndef read():\n    return pathlib.Path(__file__).with_name('value.txt').read_text()\n"
    )
    (directory / "package" / "deep" / "value.txt").write_text("value")
    (directory / "package" / "__pycache__").mkdir()
    (directory / "package" / "__pycache__" / "stale.pyc").write_text("stale")
    (directory / "data.csv").write_text("data")
    return directory


def graph_of(store: LocalStore, app: Path, *, remote: bool = False, **files: Sequence[str | Path]) -> JobGraph:
    uploaded = upload_application(store, collect_application(application=app / "app.py", **files))
    return JobGraph(
        options=HaOptions(allow_remote_executors=remote),
        job_id="flights",
        name="flights",
        application=uploaded.application,
        modules=uploaded.modules,
        py_files=uploaded.py_files,
        files=uploaded.files,
        jars=uploaded.jars,
        archives=uploaded.archives,
    )


def test_the_old_bytes_run_after_everything_on_the_submitting_host_is_gone(
    store: LocalStore, app: Path, tmp_path: Path
) -> None:
    graph = JobGraph.from_bytes(graph_of(store, app, files=[app / "data.csv"]).to_bytes(), source="test")
    (app / "app.py").write_text("raise SystemExit('this is the new script')")
    upload_application(store, collect_application(application=app / "app.py"))
    shutil.rmtree(app)

    fetched = fetch_application(store, graph, tmp_path / "elsewhere")
    ran = subprocess.run(
        [sys.executable, str(fetched.script), "argument"],
        cwd=fetched.files_directory,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.split() == ["sibling", "value", "data", "argument"]


def test_only_what_is_imported_travels(store: LocalStore, app: Path, tmp_path: Path) -> None:
    fetched = fetch_application(store, graph_of(store, app), tmp_path / "elsewhere")

    names = sorted(path.relative_to(fetched.script.parent).as_posix() for path in fetched.script.parent.rglob("*.*"))
    assert names == [
        "app.py",
        "package/__init__.py",
        "package/deep/value.py",
        "package/deep/value.txt",
        "second.py",
        "sibling.py",
    ]


def test_py_files_wheels_jars_and_data_keep_their_names_and_bytes(store: LocalStore, app: Path, tmp_path: Path) -> None:
    for name in ("lib-1.0-py3-none-any.whl", "more.zip", "driver.jar", "airlines.csv"):
        (tmp_path / name).write_bytes(name.encode())

    graph = graph_of(
        store,
        app,
        py_files=[tmp_path / "lib-1.0-py3-none-any.whl", tmp_path / "more.zip"],
        jars=[tmp_path / "driver.jar"],
        files=[tmp_path / "airlines.csv"],
    )
    fetched = fetch_application(store, graph, tmp_path / "elsewhere")

    paths = (*fetched.py_files, *fetched.jars, *fetched.files)
    assert [path.name for path in paths] == ["lib-1.0-py3-none-any.whl", "more.zip", "driver.jar", "airlines.csv"]
    assert all(path.read_bytes() == path.name.encode() for path in paths)


def test_the_same_content_is_the_same_graph(store: LocalStore, app: Path, tmp_path: Path) -> None:
    """Dates, compression and the order of directories must not make a new version of the application."""
    first = graph_of(store, app)
    copy = tmp_path / "copy"
    shutil.copytree(app, copy)
    for path in copy.rglob("*"):
        os.utime(path, (0, 0))

    assert graph_of(store, copy) == first
    package = next(module for module in first.modules if module.unpack)
    with zipfile.ZipFile(io.BytesIO(get_blob(store, package.blob.sha256))) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_executors_of_other_hosts_get_script_and_modules_in_one_archive(
    store: LocalStore, app: Path, tmp_path: Path
) -> None:
    graph = graph_of(store, app, remote=True)

    archives = [fetch_application(store, graph, tmp_path / name).archive for name in ("first", "second")]

    first, second = (path.read_bytes() for path in archives if path)
    assert first == second
    with zipfile.ZipFile(io.BytesIO(first)) as archive:
        assert sorted(archive.namelist()) == [
            "app.py",
            "package/__init__.py",
            "package/deep/value.py",
            "package/deep/value.txt",
            "second.py",
            "sibling.py",
        ]


def test_a_second_fetch_replaces_the_archive_of_a_killed_one(store: LocalStore, app: Path, tmp_path: Path) -> None:
    graph = graph_of(store, app, remote=True)
    archive = fetch_application(store, graph, tmp_path / "elsewhere").archive
    assert archive
    whole = archive.read_bytes()
    archive.write_bytes(whole[:100])

    fetch_application(store, graph, tmp_path / "elsewhere")

    assert archive.read_bytes() == whole


def test_no_archive_is_made_where_nothing_needs_one(store: LocalStore, app: Path, tmp_path: Path) -> None:
    alone = graph_of(store, app, remote=True).model_copy(update={"modules": ()})

    assert fetch_application(store, alone, tmp_path / "alone").archive is None
    assert fetch_application(store, graph_of(store, app), tmp_path / "local").archive is None


def test_fetched_files_are_for_their_owner_only(store: LocalStore, app: Path, tmp_path: Path) -> None:
    graph = graph_of(store, app, remote=True, files=[app / "data.csv"])
    fetched = fetch_application(store, graph, tmp_path / "elsewhere")

    assert all(path.stat().st_mode & 0o077 == 0 for path in fetched.script.parent.parent.rglob("*"))


def test_a_second_fetch_mends_what_a_killed_one_left(store: LocalStore, app: Path, tmp_path: Path) -> None:
    graph = graph_of(store, app)
    fetched = fetch_application(store, graph, tmp_path / "elsewhere")
    (fetched.script.parent / "sibling.py").write_text("half")

    fetch_application(store, graph, tmp_path / "elsewhere")

    assert (fetched.script.parent / "sibling.py").read_text() == (app / "sibling.py").read_text()


@pytest.mark.parametrize(
    ("application", "message"),
    [
        ("missing.py", "does not exist"),
        ("package", "is a directory"),
        ("dangling.py", "does not exist"),
        ("pipe.py", "not a regular file"),
        ("broken.py", "not a Python script"),
        ("binary.py", "not a Python script"),
        ("a,b.py", "misunderstands"),
        ("s3://bucket/app.py", "not a file on this host"),
        ("", "no application"),
    ],
)
def test_a_script_that_cannot_work_is_refused_before_anything_is_written(
    store: LocalStore, app: Path, tmp_path: Path, application: str, message: str
) -> None:
    (app / "dangling.py").symlink_to("nowhere")
    os.mkfifo(app / "pipe.py")
    (app / "broken.py").write_text("def broken(:\n")
    (app / "binary.py").write_bytes(b"\x00\xff")
    (app / "a,b.py").write_text("")
    named = application if "://" in application or not application else app / application

    with pytest.raises(ConfigurationError, match=message) as refused:
        upload_application(store, collect_application(application=named))

    assert refused.value.next_step
    assert not (tmp_path / "store").exists()


def test_a_script_that_cannot_be_read_is_refused(store: LocalStore, tmp_path: Path) -> None:
    """The memory of this process is a regular file that even root cannot read from its beginning."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        upload_application(store, collect_application(application="/proc/self/mem"))

    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("kind", ["py_files", "files", "jars"])
def test_a_missing_companion_is_refused_before_anything_is_written(
    store: LocalStore, app: Path, tmp_path: Path, kind: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"gone\.zip"):
        upload_application(store, collect_application(application=app / "app.py", **{kind: [tmp_path / "gone.zip"]}))

    assert not (tmp_path / "store").exists()


def test_two_files_of_one_name_are_refused(store: LocalStore, app: Path, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("other")

    with pytest.raises(ConfigurationError, match=r"two files have the name 'data\.csv'"):
        upload_application(
            store, collect_application(application=app / "app.py", files=[app / "data.csv", tmp_path / "data.csv"])
        )


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "..", ""])
def test_a_graph_cannot_write_outside_its_directory(store: LocalStore, tmp_path: Path, name: str) -> None:
    sha256, size = put_blob(store, b"evil")
    graph = JobGraph(job_id="f", name="f", application=Artifact(name=name, blob=Blob(sha256=sha256, size=size)))

    with pytest.raises(RecordCorruptError, match="unsafe"):
        fetch_application(store, graph, tmp_path / "elsewhere" / "target")

    assert not list(tmp_path.rglob("evil.py"))


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "a/../../evil.py"])
def test_a_package_cannot_write_outside_its_directory(store: LocalStore, app: Path, tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("good.py", "")
        archive.writestr(name, "evil")
    sha256, size = put_blob(store, tmp_path / "evil.zip")
    evil = Artifact(name="evil.zip", blob=Blob(sha256=sha256, size=size), unpack=True)
    graph = graph_of(store, app).model_copy(update={"modules": (evil,)})

    with pytest.raises(RecordCorruptError, match="unsafe"):
        fetch_application(store, graph, tmp_path / "elsewhere" / "target")

    assert not list(tmp_path.rglob("evil.py"))
    assert not list(tmp_path.rglob("good.py"))


def test_contents_are_never_logged(
    store: LocalStore, app: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (app / "data.csv").write_text("password=hunter2")

    with caplog.at_level(logging.DEBUG):
        fetch_application(store, graph_of(store, app, files=[app / "data.csv"]), tmp_path / "elsewhere")

    assert "hunter2" not in caplog.text


def packed(path: Path) -> Path:
    """Make an archive of one file."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lib/words.txt", path.name)
    return path


def test_archives_are_unpacked_beside_the_data_files_and_named_for_executors(
    store: LocalStore, app: Path, tmp_path: Path
) -> None:
    named = f"{packed(tmp_path / 'env.zip')}#environment"
    graph = graph_of(store, app, archives=[named, packed(tmp_path / "plain.zip")])
    graph = JobGraph.from_bytes(graph.to_bytes(), source="test")

    fetched = fetch_application(store, graph, tmp_path / "elsewhere")

    directory = fetched.files_directory
    assert (directory / "environment" / "lib" / "words.txt").read_text() == "env.zip"
    assert (directory / "plain.zip" / "lib" / "words.txt").read_text() == "plain.zip"
    archives = (tmp_path / "elsewhere" / "archives").as_uri()
    assert fetched.archives == (f"{archives}/env.zip#environment", f"{archives}/plain.zip#plain.zip")


@pytest.mark.parametrize("alias", ["", ".", "..", "a/b", "/a", "a,b", "a#b"])
def test_an_alias_that_is_no_name_is_refused(store: LocalStore, app: Path, tmp_path: Path, alias: str) -> None:
    with pytest.raises(ConfigurationError, match="an alias that is no name of a directory"):
        upload_application(
            store, collect_application(application=app / "app.py", archives=[f"{packed(tmp_path / 'env.zip')}#{alias}"])
        )

    assert not (tmp_path / "store").exists()


def test_an_archive_that_would_replace_a_data_file_is_refused(store: LocalStore, app: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"share a name in the driver's directory.*\['data\.csv'\]"):
        upload_application(
            store,
            collect_application(
                application=app / "app.py",
                files=[app / "data.csv"],
                archives=[f"{packed(tmp_path / 'env.zip')}#data.csv"],
            ),
        )


@pytest.mark.parametrize("alias", ["..", "../evil", "/evil"])
def test_the_alias_of_a_graph_cannot_lead_outside(store: LocalStore, app: Path, tmp_path: Path, alias: str) -> None:
    graph = graph_of(store, app, archives=[packed(tmp_path / "env.zip")])
    evil = graph.model_copy(update={"archives": (graph.archives[0].model_copy(update={"alias": alias}),)})

    with pytest.raises(RecordCorruptError, match="unsafe"):
        fetch_application(store, evil, tmp_path / "elsewhere" / "target")

    assert not list(tmp_path.rglob("words.txt"))
