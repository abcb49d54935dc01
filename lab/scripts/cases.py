"""The scripts that are compared: of PySpark itself, and of public repositories, by name.

Code of the public repositories is no part of this one. A script of theirs runs where its file lies below
``build/proofs/scripts/given/OWNER/REPOSITORY``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


SPARK = "apache/spark"
WORDS = r"\|\s*apache\|.*2\s*\|"
BATCH = r"Batch: 1"


@dataclass(frozen=True)
class Case:
    """One script.

    :param origin: Repository that it comes from; Spark's lie in the installed PySpark.
    :param path: In that repository.
    :param arguments: With ``{port}`` of a server that says two lines, ``{servers}`` and ``{topic}`` of Kafka.
    :param shown: Pattern of what it prints when it works.
    :param refused: Part of the reason with which a driver refuses it; empty where it runs.
    :param ends: Whether it comes to its end.
    :param fails: Whether Spark itself refuses it.
    :param why: Reason of the difference; empty where none is intended.
    """

    origin: str
    path: str
    arguments: tuple[str, ...] = ()
    shown: str = BATCH
    refused: str = ""
    ends: bool = False
    fails: bool = False
    why: str = ""

    @property
    def name(self) -> str:
        """What the progress calls it."""
        return f"{self.origin}/{self.path}"

    def file(self, given: Path) -> Path:
        """Return where the script lies."""
        if self.origin != SPARK:
            return given / self.origin / self.path
        found = find_spec("pyspark")
        assert found is not None
        assert found.origin is not None
        return Path(found.origin).parent / self.path


_SQL = "examples/src/main/python/sql/streaming"
_DSTREAMS = "examples/src/main/python/streaming"
_SOCKET = ("127.0.0.1", "{port}")
_NO_DSTREAMS, _WITHOUT = "DStreams have no queries", "DStreams have no checkpoints of queries"
_RELATIVE, _ELSEWHERE = (
    "reads a stream from the relative path",
    "a relative input is another directory in every attempt",
)
_STOP = "`query.stop()` interrupts the batch in flight in plain Spark; a driver waits for its end"
_REFUSED = "Spark 4.2 itself refuses its output mode; the traceback under a driver has frames of the driver"
_RATE = r"\|Rate stream with"
_ITS_CHECKPOINT = "its checkpoint has batches of the run with `spark-submit`: a job adopts them, or needs consent"
_MODULES = (
    "Python workers of a driver find a module next to the script; those of `spark-submit` in a local session do not"
)
_DEMOS = "SergeySenigov/Apache_Spark_Demos"
_MODEL = "vsvale/Conceptualizing-the-Processing-Model-for-Apache-Spark-Structured-Streaming"
_TRAINING = "SUDHA489/DataEngineer_Training"
_PLAYGROUND = "bartosz25/spark-playground"
CASES = (
    Case(SPARK, f"{_SQL}/structured_network_wordcount.py", _SOCKET, WORDS),
    Case(SPARK, f"{_SQL}/structured_network_wordcount_windowed.py", (*_SOCKET, "10", "5"), WORDS),
    Case(SPARK, f"{_SQL}/structured_network_wordcount_session_window.py", _SOCKET, WORDS),
    Case(
        SPARK,
        f"{_SQL}/structured_sessionization.py",
        _SOCKET,
        "UNSUPPORTED_OPERATION",
        ends=True,
        fails=True,
        why=_REFUSED,
    ),
    Case(
        SPARK, f"{_SQL}/structured_kafka_wordcount.py", ("{servers}", "subscribe", "{topic}"), r"\|\s*4\s*\|\s*\d+\s*\|"
    ),
    Case(SPARK, f"{_SQL}/structured_blockchain_admission_control.py", (), "Query stopped", ends=True, why=_STOP),
    Case(SPARK, f"{_DSTREAMS}/network_wordcount.py", _SOCKET, r"\('apache', 2\)", refused=_NO_DSTREAMS, why=_WITHOUT),
    Case(SPARK, f"{_DSTREAMS}/queue_stream.py", (), r"\(0, 100\)", refused=_NO_DSTREAMS, why=_WITHOUT),
    Case(SPARK, f"{_DSTREAMS}/sql_network_wordcount.py", _SOCKET, WORDS, refused=_NO_DSTREAMS, why=_WITHOUT),
    Case(_DEMOS, "rate_stream.py", (), _RATE),
    Case(_DEMOS, "rate_stream_modes.py"),
    Case(_DEMOS, "rate_stream_continuous.py", (), _RATE),
    Case("hortonworks-sk/spark-kafka", "pyspark_aggregations.py"),
    Case(_MODEL, "word_count.py", _SOCKET, WORDS),
    Case(_MODEL, "happiness_score.py", _SOCKET, r"avgScore.*\n"),
    Case(_MODEL, "continuous_processing.py"),
    Case(_MODEL, "append_mode.py", (), "Adjusted Close: string", refused=_RELATIVE, why=_ELSEWHERE),
    Case(_MODEL, "checkpointing.py", (), "Adjusted Close: double", refused=_RELATIVE, why=_ELSEWHERE),
    Case(_TRAINING, "week3/day11/lab1.py"),
    Case(_TRAINING, "week3/day11/continuous.py"),
    Case(_TRAINING, "week3/day11/task1.py"),
    Case(_TRAINING, "week3/day11/withwatermark.py", (), refused="it would start from nothing", why=_ITS_CHECKPOINT),
    Case(_PLAYGROUND, "spark-3.4.0-features/pyspark/apply_in_pandas_with_state_example.py"),
    Case(
        _PLAYGROUND,
        "pyspark-arbitrary-stateful-processing/arbitrary_stateful_processing.py",
        (),
        rf"No module named 'stateful_mapper'|{BATCH}",
        why=_MODULES,
    ),
    Case(
        _PLAYGROUND,
        "pyspark-deduplication/deduplicator_scoped.py",
        (),
        "No module named 'in_memory_data_source'|Watermark is: ",
        ends=True,
        why=_MODULES,
    ),
    Case("dmatrix/spark-misc", "src/py/sc/ss/learn_main.py", (), rf"No module named|{BATCH}", why=_MODULES),
)
