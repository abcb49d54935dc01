"""Which files beside a script belong to it, found without running it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.application.application_files import check_queries, sibling_modules
from airflow_provider_ha.jobs.application.archives import package_files


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
