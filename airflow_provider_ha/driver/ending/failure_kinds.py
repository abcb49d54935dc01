"""Classification of the error that made a driver fail: a pure function from its text to a kind.

The kind is for people and for the count of attempts; the progress of a run decides about its end
(``recovery.repeated``).

Invariant: ``APPLICATION`` is certain. Spark's refusal of a checkpoint qualifies: no retry changes the checkpoint. For
every other error, a single sign of an outage anywhere in its chain makes it an outage, and a single exception that an
outage could have caused leaves it unknown: a library that parses a server's answer also raises ``ValueError``. Names
and conditions are those of Spark 4 and of Python's standard library.

Python and the JVM pass errors to each other as text: the message of a ``PythonException`` contains a worker's
traceback, and that of a ``Py4JJavaError`` the stack of the JVM. So text is their common form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from airflow_provider_ha.jobs.runs.submissions import FailureKind


LONGEST = 400_000  # characters that are parsed; the middle of a longer text is left out
TRACEBACK = "Traceback (most recent call last):"
_WORKER = re.compile(r"\bPythonException: |Python worker")
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+)(?:, in (.+))?$')
_PYTHON = re.compile(r"([A-Za-z_][\w.]*)(?::(?:\s(.*))?)?$")
_QUALIFIED = re.compile(
    r"(?:Caused by: |Suppressed: |: |Exception in thread \"[^\"]*\" )?((?:[a-z_]\w*\.)+[A-Z][\w$]*)(?::\s*(.*))?$"
)
_TASK = re.compile(r"\(TID \d+\) \(.*?\): (.*)$")  # "Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): ..."
_NAMED = re.compile(r"([A-Za-z_][\w.$]*)(?:\b[:( ](.*))?$")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback of Python.

    :param path: File, as the traceback names it.
    :param function: Empty for a syntax error.
    """

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class ChainedError:
    """One exception of a chain.

    :param name: Its class with its module; built-in classes, and the classes of the script itself, have no module.
    :param message: The first line of its message.
    :param frames: Of Python, outermost first.
    :param worker: Whether a Python worker raised it. Spark leaves its own frames out of such a traceback.
    """

    name: str
    message: str = ""
    frames: tuple[Frame, ...] = ()
    worker: bool = False

    @property
    def short(self) -> str:
        """The class without its module."""
        return re.split(r"[.$]", self.name.rstrip("$"))[-1]

    @property
    def condition(self) -> str:
        """Spark's condition at the beginning of the message; empty without one."""
        found = _CONDITION.match(self.message)
        return found[1] if found else ""


def links(text: str) -> tuple[ChainedError, ...]:
    """Return the exceptions that *text* names, in their order. Pure; empty for an unknown form."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    found: list[ChainedError] = []
    frames: list[Frame] | None = None  # of the traceback that is being read
    worker, before = False, ""
    for line in text.splitlines():
        if line.rstrip().endswith(TRACEBACK):
            worker = _WORKER.search(f"{before} {line}") is not None
            found.extend(_headers(line.rstrip().removesuffix(TRACEBACK).rstrip()))
            frames = []
        elif frames is not None:
            if frame := _FRAME.match(line):
                frames.append(Frame(frame[1], int(frame[2]), frame[3] or ""))
            elif line[:1].strip():
                if named := _PYTHON.match(line.rstrip()):
                    found.append(ChainedError(named[1], (named[2] or "").strip(), tuple(frames), worker))
                frames = None
        elif found and not found[-1].message and _CONDITION.match(line):
            found[-1] = replace(found[-1], message=line.strip())  # a parse error begins with an empty line
        else:
            found.extend(_headers(line.rstrip()))
        before = line
    return tuple(found)


def _headers(line: str) -> Iterator[ChainedError]:
    """Yield the exception whose header *line* is, and the exception of a task that its message names."""
    header = _QUALIFIED.match(line)
    if header is not None:
        yield ChainedError(header[1], (header[2] or "").strip())
    if (task := _TASK.search(line)) is not None and (inner := _NAMED.match(task[1])) is not None:
        yield ChainedError(inner[1], (inner[2] or "").strip())


class _Sign(Enum):
    APPLICATION = 1
    OUTAGE = 2
    DOUBT = 3
    WRAPPER = 4  # no evidence: its cause decides


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """The classification of a text.

    :param link: The decisive exception; ``None`` when the text names none.
    """

    kind: FailureKind
    link: ChainedError | None = None

    @property
    def location(self) -> str:
        """Innermost line of the application: ``main.py:12 in write``; empty without such a line."""
        frames = self.link.frames if self.link is not None else ()
        own = next((frame for frame in reversed(frames) if _own(frame)), None)
        if own is None:
            return ""
        return f"{own.path.rpartition('/')[2]}:{own.line}" + (f" in {own.function}" if own.function else "")


# Raised by a mistake in code, or by a row that the code does not expect; never directly by the absence of a server.
_MISTAKES = frozenset(
    {
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "FloatingPointError",
        "ImportError",
        "IndentationError",
        "IndexError",
        "KeyError",
        "LookupError",
        "ModuleNotFoundError",
        "NameError",
        "NotImplementedError",
        "OverflowError",
        "RecursionError",
        "StopIteration",
        "SyntaxError",
        "TabError",
        "TypeError",
        "UnboundLocalError",
        "UnicodeDecodeError",
        "UnicodeEncodeError",
        "UnicodeError",
        "UnicodeTranslateError",
        "ValueError",
        "ZeroDivisionError",
    }
)
_ANYTHING = frozenset({"Exception", "RuntimeError"})  # raised by any library: only the application's own count
_NO_APPLICATION = frozenset({"BaseException", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "SystemError"})
_OF_PYSPARK = re.compile(
    r"pyspark\.errors\.exceptions\.base\.PySpark"
    r"(?:Value|Type|Index|Attribute|Assertion|NotImplemented|Pickling|Key|Import)Error"
)
_OF_DATA = frozenset({"decimal.InvalidOperation", "decimal.DivisionByZero", "_pickle.PicklingError"})
_OF_DATA_IN_A_WORKER = frozenset({"json.decoder.JSONDecodeError", "binascii.Error", "struct.error"})
_MISSING_CLASS = frozenset({"ClassNotFoundException", "NoClassDefFoundError", "SparkClassNotFoundException"})  # a jar
_WRAPPERS = frozenset(
    {
        "CapturedException",
        "ExecutionException",
        "ForeachBatchUserFuncException",
        "InvocationTargetException",
        "Py4JException",
        "Py4JJavaError",
        "PythonException",
        "QueryExecutionException",
        "SparkException",
        "SparkUserAppException",
        "StreamingQueryException",
        "UndeclaredThrowableException",
        "UnknownException",
    }
)
_WRAPPING_CONDITIONS = frozenset(
    {
        "FAILED_EXECUTE_UDF",
        "FOREACH_BATCH_USER_FUNCTION_ERROR",
        "FOREACH_USER_FUNCTION_ERROR",
        "PYTHON_EXCEPTION",
        "STREAM_FAILED",
        "TASK_WRITE_FAILED",
    }
)
_ROW_CONDITIONS = frozenset(
    {
        "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW",
        "CAST_INVALID_INPUT",
        "CAST_OVERFLOW",
        "CANNOT_PARSE_TIMESTAMP",
        "DIVIDE_BY_ZERO",
        "INVALID_ARRAY_INDEX",
        "INVALID_ARRAY_INDEX_IN_ELEMENT_AT",
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "REMAINDER_BY_ZERO",
        "USER_RAISED_EXCEPTION",
    }
)
_ANALYSIS = frozenset({"AnalysisException", "ExtendedAnalysisException", "ParseException"})
# The missing object of a query may be on a file system, or in a catalog, that is unavailable.
_ABSENCE = re.compile(r"NOT_FOUND|NOT_EXIST|UNABLE_TO|CANNOT_|FAILED|INTERNAL|LOAD_|LOCATION|CATALOG|SCHEMA_INFER")
_NO_SUCH_SOURCE = re.compile(r"(?i)failed to find (?:the )?data source")  # its jar is not shipped
_ABSENT = re.compile(r"(?i)not exist|not found|no such|unable to|cannot be (?:read|found|loaded|inferred)|failed to")
_OUTAGE_PACKAGES = (
    "com.amazonaws.",
    "com.azure.",
    "com.google.cloud.",
    "io.grpc.",
    "io.netty.",
    "java.io.",
    "java.net.",
    "java.nio.",
    "javax.net.",
    "kazoo.",
    "botocore.",
    "org.apache.hadoop.",
    "org.apache.kafka.",
    "org.apache.spark.rpc.",
    "org.apache.spark.shuffle.",
    "org.apache.spark.storage.",
    "org.apache.zookeeper.",
    "software.amazon.",
)
_OUTAGE_NAME = re.compile(
    r"Abort|AccessDenied|Away|BlockingIO|Broker|Busy|Cancel|ChildProcess|Connect|Credential|Deadline|Deadlock|Disconnect"
    r"|DiskSpace|Dns|Down|EOF|Endpoint|Executor|FetchFailed|FileExists|FileNotFound|Http|IOError|IOException|Interface"
    r"|Interrupt|Killed|Leader|LockTimeout|Lost|MemoryError|Network|NoSuchFile|NotADirectory|IsADirectory"
    r"|NotLeader|OSError|Offline|OperationalError|OutOfMemory|Outage|PathNotFound|Permission|ProcessLookup|Quota"
    r"|RateLimit|Refused|Retries|Retry|ServerError|ServiceE|ServiceUnavailable|Session(?:Expired|Lost)|Shutdown|Socket"
    r"|SSL|Ssl|TaskKilled|Temporar|Throttl|TimedOut|Timeout|TooMany|Transient|Transport|Unavailable|Unreachable|ZooKeeper"
)
_OUTAGE_WORDS = re.compile(
    r"(?i)\btime[ds]?[ -]?out\b|connection (?:was |is )?(?:refused|reset|closed|aborted|lost|broken|error)"
    r"|(?:could not|cannot|can't|failed to|unable to) (?:connect|establish|reach|obtain a new comm)"
    r"|resolve (?:the )?(?:host|name|address)|unreachable|no route to host|broken pipe|name resolution|unknown host"
    r"|name or service not known"
    r"|service unavailable|temporarily unavailable|bad gateway|too many (?:requests|open files|connections)"
    r"|\b(?:http|status)\D{0,20}(?:408|425|429|5\d\d)\b|no space left|disk quota|read-only file system"
    r"|stale file handle|input/output error|out of memory|java heap space|gc overhead|cannot allocate memory|\boom\b"
    r"|executor ?lost|lost executor|exited unexpectedly|worker (?:died|crashed)|sparkcontext was shut ?down"
    r"|stopped sparkcontext|has been shut ?down|\[errno \d+\]|server (?:has gone away|closed the connection)"
)
# Spark's refusals of a checkpoint, by condition and by text. Errors from reading a damaged file are not included.
_REFUSAL_CONDITION = re.compile(
    r"STATE_STORE_\w*(?:SCHEMA|ROW_FORMAT|PROVIDER|COLUMN_FAMIL|INCORRECT_NUM)\w*|STREAMING_STATEFUL_OPERATOR_NOT_MATCH\w*"
    r"|STATEFUL_PROCESSOR_\w+|TRANSFORM_WITH_STATE_\w+|BATCH_METADATA_NOT_FOUND|KAFKA_DATA_LOSS[\w.]*"
    r"|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE|DELTA_\w*(?:SCHEMA_CHANGE|SOURCE_IGNORE|DIFFERENT_TABLE)\w*"
)
_REFUSAL = re.compile(
    r"There are \[\d+\] sources in the checkpoint|[Nn]umber of partitions .*(?:chang|match|differ)"
    r"|offset was changed from \S+ to|[Ss]ome data may have been (?:lost|missed)"
    r"|Detected (?:schema change|a data update|deleted data|incompatible schema)|Cannot (?:process|handle) \w+ snapshot"
    r"|Cannot load current offset at snapshot|Unable to find batch \S+_spark_metadata|CheckpointInfo length: 0, num"
)
_OF_SPARK = re.compile(
    r"org\.apache\.spark\.|io\.delta\.|org\.apache\.iceberg\."
    r"|java\.lang\.(?:AssertionError|Illegal\w+Exception|UnsupportedOperationException)\Z"
)
_LIBRARY = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d[\d.]*/|/python/(?:lib/)?(?:pyspark|py4j)|pyspark\.zip/|py4j-[^/]*\.zip/"
    r"|/airflow_provider_ha/|^<"
)
_NETWORK = re.compile(
    r"/(?:aiohttp|asyncio|asyncpg|azure|boto3|botocore|cassandra|confluent_kafka|elasticsearch|fsspec|google|grpc"
    r"|hdfs|http|httpcore|httpx|kafka|kazoo|mysql|oracledb|paramiko|psycopg2?|pymongo|pymysql|pyodbc|redis|requests"
    r"|s3fs|s3transfer|smtplib|socket|sqlalchemy|sqlite3|ssl|urllib3?|websockets?)(?:/|\.py$)"
)
_NEVER_ITS_OWN = re.compile(r"/airflow_provider_ha/|/py4j/|py4j-[^/]*\.zip/")  # a JVM that dies shows in py4j


def classify(text: str, *, modules: Collection[str] = ()) -> FailureVerdict:
    """Return the classification of *text*: tracebacks and stacks as Python and the JVM print them.

    :param modules: Top-level names of the application's own modules.
    """
    chain = links(text)
    refusal = next(filter(_refuses, chain), None)
    if refusal is not None:
        return FailureVerdict(FailureKind.APPLICATION, refusal)
    signs = [(_sign(link, modules), link) for link in chain]
    for sign, kind in ((_Sign.OUTAGE, FailureKind.OUTAGE), (_Sign.DOUBT, FailureKind.UNKNOWN)):
        telling = [link for found, link in signs if found is sign]
        if telling:
            return FailureVerdict(kind, telling[-1])
    certain = [link for found, link in signs if found is _Sign.APPLICATION]
    if certain:
        # Prefer an exception with a line of the application: the JVM repeats an analysis error without that line.
        located = (link for link in reversed(certain) if any(map(_own, link.frames)))
        return FailureVerdict(FailureKind.APPLICATION, next(located, certain[-1]))
    return FailureVerdict(FailureKind.UNKNOWN, chain[-1] if chain else None)


def never_passes(chain: Sequence[ChainedError]) -> bool:
    """Return whether Spark refuses a checkpoint, and would do so in each attempt."""
    return any(map(_refuses, chain))


def is_of_spark(chain: Sequence[ChainedError]) -> bool:
    """Return whether Spark itself raised the cause of an error, outside all functions of the application."""
    return bool(chain) and not any(link.frames for link in chain) and _OF_SPARK.match(chain[-1].name) is not None


def _refuses(link: ChainedError) -> bool:
    return bool(_REFUSAL_CONDITION.match(link.condition) or _REFUSAL.search(link.message))


def _sign(link: ChainedError, modules: Collection[str]) -> _Sign:  # noqa: PLR0911  # one return per case reads best
    if link.short in _ANALYSIS and _is_of_the_query(link):
        return _Sign.APPLICATION
    if _OUTAGE_WORDS.search(link.message) or link.name.startswith(_OUTAGE_PACKAGES):
        return _Sign.OUTAGE
    builtin = "." not in link.name and link.name in _MISTAKES | _ANYTHING
    if not builtin and _OUTAGE_NAME.search(link.short):
        return _Sign.OUTAGE
    if link.short in _ANALYSIS:
        return _Sign.OUTAGE if link.condition == "PATH_NOT_FOUND" else _Sign.DOUBT
    if link.condition in _ROW_CONDITIONS or link.short in _MISSING_CLASS:
        return _Sign.APPLICATION
    if link.short in _WRAPPERS:
        return _Sign.WRAPPER if not link.condition or link.condition in _WRAPPING_CONDITIONS else _Sign.DOUBT
    return _Sign.APPLICATION if link.frames and _is_mistake(link, modules) else _Sign.DOUBT


def _is_of_the_query(link: ChainedError) -> bool:
    """Return whether an analysis error is about the query's own text, and not about a missing object that it names."""
    if _NO_SUCH_SOURCE.search(link.message):
        return True
    if link.condition and not link.condition.startswith("_LEGACY"):
        return _ABSENCE.search(link.condition) is None
    return _ABSENT.search(link.message) is None and _OUTAGE_WORDS.search(link.message) is None


def _is_mistake(link: ChainedError, modules: Collection[str]) -> bool:
    if (
        link.name in _NO_APPLICATION
        or _through_a_connection(link.frames)
        or _NEVER_ITS_OWN.search(link.frames[-1].path)
    ):
        return False
    if "." not in link.name:
        return link.name in _MISTAKES or _own(link.frames[-1])
    if link.name in _OF_DATA_IN_A_WORKER:
        return link.worker
    return bool(link.name in _OF_DATA or _OF_PYSPARK.fullmatch(link.name) or link.name.partition(".")[0] in modules)


def _through_a_connection(frames: tuple[Frame, ...]) -> bool:
    """Return whether the application called code that talks to a server; the application's own callers do not count."""
    last = max((number for number, frame in enumerate(frames) if _own(frame)), default=-1)
    return any(_LIBRARY.search(frame.path) and _NETWORK.search(frame.path) for frame in frames[last + 1 :])


def _own(frame: Frame) -> bool:
    return _LIBRARY.search(frame.path) is None
