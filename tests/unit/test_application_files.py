"""Files of an application: found beside the script, and unpacked from archives."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.application.application_files import check_queries, sibling_modules
from airflow_provider_ha.jobs.application.archives import check_archive, package_files, unpack_archive


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import one", ["one.py"]),
        ("import one as other, two", ["one.py", "two.py"]),
        ("from package.inner import thing", ["package"]),
        ("import namespace.part", ["namespace"]),
        ("def later():\n    import one", ["one.py"]),
        ("try:\n    import one\nexcept ImportError:\n    import two", ["one.py", "two.py"]),
        ("import importlib\nimportlib.import_module('one')", ["one.py"]),
        ("__import__('package.inner')", ["package"]),
        ("import native", ["native.abi3.so"]),
        ("import uses_one", ["one.py", "uses_one.py"]),
        ("import circle", ["circle.py"]),
        ("import both", ["both"]),
        ("import json, os.path, pyspark.sql", []),
        ("import data_only", []),
        ("'import one'", []),
        ("import app", []),
        ("import foreign", ["foreign.py"]),
    ],
)
def test_imports_are_followed_within_the_scripts_directory(tmp_path: Path, source: str, found: list[str]) -> None:
    files = {
        "one.py": "",
        "two.py": "",
        "uses_one.py": "from one import x",
        "circle.py": "import circle, app",
        "foreign.py": "this is not Python 3",
        "native.abi3.so": "",
        "package/__init__.py": "",
        "package/inner.py": "",
        "namespace/part.py": "",
        "both/__init__.py": "",
        "both.py": "",
        "data_only/rows.csv": "",
        "app.py": source,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)

    assert [path.name for path in sibling_modules(tmp_path / "app.py")] == found


def test_a_package_may_import_siblings_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import one")
    (tmp_path / "one.py").write_text("")
    (tmp_path / "app.py").write_text("import package")

    assert [path.name for path in sibling_modules(tmp_path / "app.py")] == ["one.py", "package"]


def test_links_in_a_package_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    for name in ("package", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "package" / "circle").symlink_to(tmp_path / "package")
    (tmp_path / "package" / "linked").symlink_to(tmp_path / "elsewhere")

    found = [path.relative_to(tmp_path).as_posix() for path in package_files(tmp_path / "package")]

    assert found == ["package/__init__.py", "package/linked/__init__.py"]


CHAIN = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load()
query = (
    rows.writeStream
    {calls}
    .start({path})
)
query.awaitTermination()
"""


@pytest.mark.parametrize(
    ("calls", "path"),
    [
        (".foreachBatch(write)", ""),
        (".foreach(write).option('truncate', 'false')", ""),
        (".format('json').foreachBatch(write)", ""),
    ],
)
def test_a_query_that_nothing_names_is_found_before_spark_starts(tmp_path: Path, calls: str, path: str) -> None:
    script = tmp_path / "main.py"
    script.write_text(CHAIN.format(calls=calls, path=path))

    with pytest.raises(ConfigurationError, match=r"main\.py, line 8 starts a query without a name"):
        check_queries(script)
    script.write_text(script.read_text() + "rows.writeStream.format('json').start('/data/out')\n")
    assert check_queries(script) == (8,)


@pytest.mark.parametrize(
    ("calls", "path"),
    [
        (".foreach(write).option('checkpointLocation', 'c')", ""),
        (".foreachBatch(write).options(checkpointLocation='c')", ""),
        (".foreachBatch(write).options(**more)", ""),
        (".foreachBatch(write)", "queryName='orders'"),
        (".foreachBatch(write)", "'/data/out', 'parquet'"),
        (".format('console')", ""),
        (".foreachBatch(write).format('console')", ""),
        (".queryName('orders').foreachBatch(write)", ""),
        (".foreachBatch(write).queryName(name)", ""),
        (".format('parquet')", "'/data/out'"),
        (".format('kafka').option('topic', 't')", ""),
        (".format(sink)", ""),
    ],
)
def test_a_query_with_a_name_or_a_place_is_taken(tmp_path: Path, calls: str, path: str) -> None:
    script = tmp_path / "main.py"
    script.write_text(CHAIN.format(calls=calls, path=path))

    assert check_queries(script) == ()


def test_a_script_with_dstreams_alone_is_refused_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text("from pyspark.streaming import StreamingContext\nssc = StreamingContext(sc, 1)\nssc.start()\n")

    with pytest.raises(
        ConfigurationError, match=r"main\.py, line 2 creates a StreamingContext: DStreams have no queries"
    ):
        check_queries(script)
    script.write_text("from pyspark.streaming import StreamingContext\nrows.writeStream.queryName('a').start()\n")
    assert check_queries(script) == ()


@pytest.mark.parametrize(
    "text",
    [
        "import threading\nthreading.Thread(target=print).start()\n",
        "writer = rows.writeStream.foreachBatch(write)\nwriter.queryName('a').start()\n",
        "server.foreachBatch(write).start()\n",
    ],
    ids=["a thread", "over two statements", "no query"],
)
def test_what_is_not_one_expression_is_left_to_the_driver(tmp_path: Path, text: str) -> None:
    script = tmp_path / "main.py"
    script.write_text(text)

    assert check_queries(script) == ()


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
