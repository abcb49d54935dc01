"""Classification of errors, from their texts."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from airflow_provider_ha.driver.ending.failure_kinds import LONGEST, FailureVerdict, classify, links
from airflow_provider_ha.driver.queries.script_paths import from_missing_file
from airflow_provider_ha.jobs.application.application_files import files_beside
from airflow_provider_ha.jobs.runs.submissions import FailureKind
from tests.support.spark.record_failures import CORPUS


RECORDED = sorted(CORPUS.glob("*.txt"))
IN_FOREACH_BATCH = """\
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated with \
exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. \
Reason: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/pyspark/sql/utils.py", line 166, in call
    raise e
  File "/srv/submissions/1-1/application/main.py", line 12, in write
    {code}
{rest}
\tat org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink.addBatch(ForeachBatchSink.scala:39)
Caused by: py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: (as above)
\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""
IN_A_TASK = """\
org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated with \
exception: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in \
stage 0.0 (TID 0) (host-1 executor driver): {failure}
"""


def in_batch(rest: str, code: str = "f(frame)") -> str:
    return IN_FOREACH_BATCH.format(rest=rest, code=code)


def kind(text: str, **values: object) -> FailureKind:
    return classify(text, **values).kind  # type: ignore[arg-type]


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_error_that_was_recorded_is_of_the_kind_that_it_was_made_as(path: Path) -> None:
    expected = FailureKind[path.stem.partition("-")[0].upper()]

    assert kind(path.read_text()) is expected


@pytest.mark.parametrize(
    ("record", "short", "message", "location"),
    [
        ("application-analysis", "AnalysisException", "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column", "in <lambda>"),
        ("application-parse", "ParseException", "[PARSE_SYNTAX_ERROR] Syntax error", "in <lambda>"),
        ("application-udf", "ValueError", "invalid literal for int() with base 10: 'three'", "in <lambda>"),
        ("application-udf-module", "ModuleNotFoundError", "No module named 'pricing'", ""),
        ("application-foreach-batch-own-class", "BadRowError", "row 7 has no price", "in _own"),
        ("outage-source-is-gone", "AnalysisException", "[PATH_NOT_FOUND] Path does not exist", ""),
    ],
)
def test_recorded_error_is_told_with_its_class_message_and_line(
    record: str, short: str, message: str, location: str
) -> None:
    verdict = classify((CORPUS / f"{record}.txt").read_text())

    assert verdict.link is not None
    assert verdict.link.short == short
    assert verdict.link.message.startswith(message)
    assert verdict.location.endswith(location)


def test_there_are_records_of_every_kind() -> None:
    assert {path.stem.partition("-")[0] for path in RECORDED} >= {"application", "outage"}


def test_mistake_in_a_foreach_batch_function_is_told_with_its_class_message_and_line() -> None:
    verdict = classify(in_batch("KeyError: 'price'"))

    assert verdict.kind is FailureKind.APPLICATION
    assert verdict.link is not None
    assert (verdict.link.name, verdict.link.message) == ("KeyError", "'price'")
    assert verdict.location == "main.py:12 in write"


@pytest.mark.parametrize(
    "said",
    [
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "TimeoutError: timed out",
        "FileNotFoundError: [Errno 2] No such file or directory: '/mnt/rows'",
        "OSError: [Errno 28] No space left on device",
        "MemoryError",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api', port=443): Max retries exceeded",
        'psycopg2.OperationalError: connection to server at "db", port 5432 failed: Connection refused',
        "sqlite3.OperationalError: database is locked",
        "kafka.errors.NoBrokersAvailable: NoBrokersAvailable",
        "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL",
        "kazoo.exceptions.ConnectionLoss",
        "py4j.protocol.Py4JNetworkError: Answer from Java side is empty",
        "RuntimeError: HTTP 503",
        "RuntimeError: request timed out",
        "SourceUnavailableError: the source does not answer",
    ],
)
def test_outage_in_a_foreach_batch_function_is_none_of_the_application(said: str) -> None:
    assert kind(in_batch(said)) is FailureKind.OUTAGE


@pytest.mark.parametrize(
    "said",
    ["pydantic_core._pydantic_core.ValidationError: 1 validation error for Row", "pricing.errors.PriceError: none"],
)
def test_class_of_an_unknown_library_is_not_certain(said: str) -> None:
    assert kind(in_batch(said)) is FailureKind.UNKNOWN


def test_class_of_a_module_that_travels_with_the_application_is_its_own() -> None:
    said = in_batch("pricing.errors.PriceError: none")

    assert kind(said, modules={"pricing"}) is FailureKind.APPLICATION


def test_error_that_follows_an_outage_is_an_outage() -> None:
    chained = (
        "ConnectionResetError: [Errno 104] Connection reset by peer\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/srv/submissions/1-1/application/main.py", line 14, in write\n'
        "    raise ValueError('no rows')\n"
        "ValueError: no rows"
    )

    assert kind(in_batch(chained)) is FailureKind.OUTAGE


@pytest.mark.parametrize("library", ["urllib3/response.py", "requests/models.py", "sqlalchemy/engine/base.py"])
def test_mistake_inside_a_library_that_talks_to_a_server_is_not_certain(library: str) -> None:
    deeper = f'  File "/venv/lib/python3.11/site-packages/{library}", line 9, in read\n    x\nValueError: empty answer'

    assert kind(in_batch(deeper)) is FailureKind.UNKNOWN


def test_row_that_a_library_of_data_refuses_is_an_error_of_the_application() -> None:
    deeper = (
        "  File \"/venv/lib/python3.11/site-packages/pandas/core/frame.py\", line 9, in f\n    x\nKeyError: 'price'"
    )

    verdict = classify(in_batch(deeper))

    assert verdict.kind is FailureKind.APPLICATION
    assert verdict.location == "main.py:12 in write"


def test_runtime_error_is_the_application_s_only_where_the_application_raises_it() -> None:
    library = (
        '  File "/venv/lib/python3.11/site-packages/lib/pool.py", line 9, in f\n    x\nRuntimeError: pool is closed'
    )

    assert kind(in_batch("RuntimeError: row 7 is empty")) is FailureKind.APPLICATION
    assert kind(in_batch(library)) is FailureKind.UNKNOWN


@pytest.mark.parametrize("inner", ["airflow_provider_ha/driver/context.py", "py4j/clientserver.py"])
def test_mistake_inside_this_package_or_py4j_is_none_of_the_application(inner: str) -> None:
    frame = f'  File "/venv/lib/python3.11/site-packages/{inner}", line 9, in f\n    x\n'

    assert kind(in_batch(frame + "TypeError: f() takes 1 argument")) is FailureKind.UNKNOWN


@pytest.mark.parametrize(
    "failure",
    [
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with 137",
        "java.io.FileNotFoundException: File file:/data/in/rows.json does not exist",
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed): java.io.EOFException",
        "java.lang.OutOfMemoryError: Java heap space",
        "FetchFailed(null, shuffleId=0, mapIndex=-1, mapId=-1, reduceId=0, message=",
        "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired before the position",
        "java.nio.file.FileSystemException: /tmp/blockmgr: No space left on device",
    ],
)
def test_lost_executor_storage_memory_and_broker_are_outages(failure: str) -> None:
    assert kind(IN_A_TASK.format(failure=failure)) is FailureKind.OUTAGE


def test_broker_that_is_away_is_an_outage() -> None:
    """As Spark 4.2 with Kafka 3.9 prints it."""
    text = (
        "org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated "
        "with exception: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. "
        "Call: describeTopics SQLSTATE: XXKST\n"
        "Caused by: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Timed "
        "out waiting for a node assignment. Call: describeTopics\n"
        "Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: "
        "describeTopics\n"
    )

    assert kind(text) is FailureKind.OUTAGE


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved.", FailureKind.APPLICATION),
        ("[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] Cannot resolve", FailureKind.APPLICATION),
        ("[PATH_NOT_FOUND] Path does not exist: file:/data/in.", FailureKind.OUTAGE),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found.", FailureKind.UNKNOWN),
        ("Failed to find data source: kafka. Please deploy the application as per the deployment section of ...",
         FailureKind.APPLICATION),
        ("[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for JSON.", FailureKind.UNKNOWN),
        ("[_LEGACY_ERROR_TEMP_3102] Queries with streaming sources must be executed with writeStream.start()",
         FailureKind.APPLICATION),
    ],
)  # fmt: skip
def test_analysis_error_is_the_application_s_unless_something_is_missing(said: str, expected: FailureKind) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/submissions/1-1/application/main.py", line 3, in <module>\n    f()\n'
        '  File "/venv/lib/python3.11/site-packages/pyspark/errors/exceptions/captured.py", line 258, in deco\n    x\n'
        f"pyspark.errors.exceptions.captured.AnalysisException: {said}\n"
    )

    assert kind(text) is expected


def test_class_that_no_jar_holds_is_a_missing_module() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/submissions/1-1/application/main.py", line 3, in <module>\n    f()\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o41.load.\n"
        ": org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: x.\n"
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala)\n"
        "Caused by: java.lang.ClassNotFoundException: x.DefaultSource\n"
    )

    assert kind(text) is FailureKind.APPLICATION


def test_data_that_cannot_be_decoded_is_certain_only_in_a_worker() -> None:
    """In the driver, the text may be what a server answers while it is away."""
    frames = '  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n    x\n'
    said = f"{frames}json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    worker = (
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1993, in main\n    process()\n'
        f'  File "/srv/submissions/1-1/application/main.py", line 12, in parse\n    x\n{said}\n'
    )

    assert kind(in_batch(said)) is FailureKind.UNKNOWN
    assert kind(IN_A_TASK.format(failure=worker)) is FailureKind.APPLICATION


def test_script_that_ends_itself_is_not_certain() -> None:
    assert kind(
        'Traceback (most recent call last):\n  File "/a/main.py", line 3, in <module>\n    x\nSystemExit: 1\n'
    ) is (FailureKind.UNKNOWN)


def test_text_without_an_error_is_unknown() -> None:
    assert classify("") == FailureVerdict(FailureKind.UNKNOWN)
    assert links("a line\nanother: one") == ()


def test_syntax_error_is_the_application_s() -> None:
    try:
        compile("a b", "/srv/submissions/1-1/application/main.py", "exec")
    except SyntaxError as error:
        text = "".join(traceback.format_exception(error))

    assert kind(text) is FailureKind.APPLICATION


def test_cause_at_the_end_of_a_very_long_text_is_seen() -> None:
    stack = "\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:338)\n" * (LONGEST // 40)

    assert kind(in_batch("KeyError: 'price'") + stack + "Caused by: java.net.ConnectException: refused") is (
        FailureKind.OUTAGE
    )


HOME = (Path("/home/1-1/app/application"), Path("/home/1-1/app/files"))
BESIDE = ("conf/rules.yml", "settings.ini")


@pytest.mark.parametrize(
    "named", ["/home/1-1/app/application/settings.ini", "/home/1-1/app/files/settings.ini", "settings.ini"]
)
def test_a_file_beside_the_script_is_named_with_the_option_that_ships_it(named: str) -> None:
    said = from_missing_file(f"[Errno 2] No such file or directory: '{named}'", BESIDE, HOME)

    assert "settings.ini is next to the script" in said
    assert "--files settings.ini (files=['settings.ini'])" in said


def test_a_path_that_spark_does_not_find_is_understood_too() -> None:
    said = from_missing_file("[PATH_NOT_FOUND] Path does not exist: file:/home/1-1/app/files/conf.", BESIDE, HOME)

    assert said.startswith("the directory conf is next to the script")


def test_a_relative_path_that_is_nowhere_asks_for_an_absolute_one() -> None:
    said = from_missing_file("[Errno 2] No such file or directory: 'lookup.csv'", BESIDE, HOME)

    assert "write an absolute path, or ship the file with --files" in said


@pytest.mark.parametrize(
    "message", ["[Errno 2] No such file or directory: '/data/in.csv'", "Path does not exist: s3a://b/in", "'price'"]
)
def test_of_another_place_nothing_is_said(message: str) -> None:
    assert from_missing_file(message, BESIDE, HOME) == ""


def test_data_files_near_the_script_are_found_and_sources_are_not(tmp_path: Path) -> None:
    for name in ("main.py", "settings.ini", ".env", "conf/rules.yml", "lib/helper.py", "a/b/c/d.txt", "__pycache__/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert files_beside(tmp_path / "main.py") == BESIDE
