"""What the answers of the child of a proof mean, and what its silence means."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    Application,
    ProofEvent,
    ProofMessage,
    ProofRequest,
    SparkError,
    StateReading,
    decisive_error,
    is_refusal,
)
from airflow_provider_ha.checkpoints.verify.proof_result import (
    Proof,
    ProofDecision,
    ProofOutcome,
    StepResult,
    decide,
    sentences,
)
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Reason, VerificationReport


LEFT = StateReading(operator=0, store="left-keyToNumValues", partitions=2)
RIGHT = StateReading(operator=0, store="right-keyToNumValues", partitions=2)
SCRIPT = Application(script=Path("/apps/app.py"))
DAMAGED = (
    SparkError(error_class="org.apache.spark.SparkException", message="Job aborted due to stage failure: Task 0"),
    SparkError(error_class="CANNOT_LOAD_STATE_STORE.UNCATEGORIZED", message="An error occurred during loading state."),
    SparkError(error_class="org.rocksdb.RocksDBException", message="Corruption: Mismatch in unique ID on table file"),
)
NO_MEMORY = (*DAMAGED[:2], SparkError(error_class="java.lang.OutOfMemoryError", message="Java heap space"))


def request(*readings: StateReading, application: Application | None = None) -> ProofRequest:
    return ProofRequest(
        copy_directory=Path("/s/copy"),
        original="/data/counts",
        batch=8,
        state_by_id=False,
        readings=readings,
        application=application,
        scratch=Path("/s"),
        heap="1g",
    )


def loaded(reading: StateReading, *rows: int) -> ProofMessage:
    return ProofMessage(event=ProofEvent.LOADED, reading=reading, rows=rows)


def refused(*errors: SparkError, reading: StateReading | None = None) -> ProofMessage:
    return ProofMessage(event=ProofEvent.REFUSED, reading=reading, errors=errors)


def proof(decision: ProofDecision, *, restorable: bool = True) -> Proof:
    reasons = () if restorable else (Reason(Code.STATE_MISSING, "state/0/0/9.delta", "it is not there"),)
    report = VerificationReport(
        startable=restorable,
        restorable=[8] if restorable else [],
        findings=(),
        planned=8,
        committed=8,
        batches=(BatchVerdict(8, reasons),),
    )
    return Proof("/data/counts", 8, report, decision.loading, decision.starting, findings=decision.findings)


def test_what_loaded_every_store_and_started_is_proven() -> None:
    answers = [
        loaded(LEFT, 2, 3),
        loaded(RIGHT, 0, 1),
        ProofMessage(event=ProofEvent.STARTED, query="counts", operators=(6,)),
    ]
    decision = decide(request(LEFT, RIGHT, application=SCRIPT), answers, "")

    assert (decision.loading.outcome, decision.starting.outcome) == (ProofOutcome.PROVEN, ProofOutcome.PROVEN)
    assert decision.started is not None
    assert (decision.started.batch, decision.started.state_rows) == (9, (6,))
    assert proof(decision).proven is True
    assert decision.findings == ()


def test_without_an_application_it_is_loaded_and_says_that_it_was_not_started() -> None:
    decision = decide(request(LEFT), [loaded(LEFT, 1, 1)], "")

    assert decision.starting == StepResult(ProofOutcome.NOT_ASKED, "no application was named")
    assert proof(decision).proven is True
    assert "started: not tried (no application was named)" in list(sentences(proof(decision)))


def test_without_state_there_is_nothing_to_load() -> None:
    decision = decide(request(), [], "")

    assert decision.loading.outcome is ProofOutcome.NOTHING
    assert "loaded: the checkpoint holds no state" in list(sentences(proof(decision)))


def test_a_store_that_spark_refuses_refutes_the_proof_and_spark_is_quoted() -> None:
    decision = decide(request(LEFT, RIGHT), [refused(*DAMAGED, reading=LEFT), loaded(RIGHT, 1, 1)], "")
    (finding,) = decision.findings

    assert proof(decision).proven is False
    assert (finding.code, finding.blocks, finding.batch, finding.path) == (Code.LOAD_REFUSED, True, 8, "state/0")
    assert finding.found == ("org.rocksdb.RocksDBException: Corruption: Mismatch in unique ID on table file")
    assert "left-keyToNumValues" in finding.expected


def test_a_refused_load_is_not_started() -> None:
    decision = decide(request(LEFT, application=SCRIPT), [refused(*DAMAGED, reading=LEFT)], "")

    assert decision.starting == StepResult(ProofOutcome.NOT_ASKED, "its state could not be loaded")


def test_a_query_that_spark_fails_refutes() -> None:
    error = SparkError(
        error_class="STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE", message="Provided key schema does not match"
    )
    decision = decide(request(LEFT, application=SCRIPT), [loaded(LEFT, 1, 1), refused(error)], "")
    (finding,) = decision.findings

    assert proof(decision).proven is False
    assert (finding.code, finding.blocks) == (Code.START_REFUSED, True)
    assert finding.found.startswith("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE: ")


@pytest.mark.parametrize("ending", ["the child was killed by SIGKILL", "Spark was not done after 5 seconds"])
def test_a_child_that_died_before_it_answered_leaves_the_question_open(ending: str) -> None:
    decision = decide(request(LEFT, RIGHT), [loaded(LEFT, 1, 1)], ending)
    (finding,) = decision.findings

    assert proof(decision).proven is None
    assert decision.loading == StepResult(ProofOutcome.UNKNOWN, ending)
    assert (finding.code, finding.blocks) == (Code.NOT_PROVEN, None)


def test_what_was_refused_before_the_child_died_stays_refused() -> None:
    decision = decide(request(LEFT, RIGHT), [refused(*DAMAGED, reading=LEFT)], "the child was killed by SIGKILL")

    assert proof(decision).proven is False


def test_no_memory_is_no_damage() -> None:
    decision = decide(request(LEFT), [refused(*NO_MEMORY, reading=LEFT)], "")

    assert proof(decision).proven is None
    assert "Java heap space" in decision.loading.reason


def test_a_partition_that_spark_did_not_see_is_not_loaded() -> None:
    decision = decide(request(LEFT), [loaded(LEFT, 7)], "")

    assert proof(decision).proven is None
    assert decision.loading.reason == "Spark read 1 of 2 partitions of left-keyToNumValues"


def test_a_query_that_committed_has_loaded_what_a_reader_could_not_read() -> None:
    unreadable = SparkError(error_class="STDS_FAILED_TO_READ_STATE_SCHEMA", message="Failed to read the state schema.")
    answers = [
        refused(unreadable, reading=LEFT),
        ProofMessage(event=ProofEvent.STARTED, query="counts", operators=(4,)),
    ]
    decision = decide(request(LEFT, application=SCRIPT), answers, "")

    assert decision.loading.outcome is ProofOutcome.UNKNOWN
    assert proof(decision).proven is True


def test_a_script_that_never_starts_the_query_leaves_the_question_open() -> None:
    said = "query 'counts' was not started: app.py has ended; it starts other"
    decision = decide(
        request(LEFT, application=SCRIPT), [loaded(LEFT, 1, 1), ProofMessage(event=ProofEvent.UNABLE, reason=said)], ""
    )

    assert decision.loading.outcome is ProofOutcome.PROVEN
    assert decision.starting == StepResult(ProofOutcome.UNKNOWN, said)
    assert proof(decision).proven is None


def test_a_batch_that_is_not_restorable_is_refuted_unasked() -> None:
    step = StepResult(ProofOutcome.NOT_ASKED, "the verification reports that it is not restorable")

    assert proof(ProofDecision(step, step, (), None, ()), restorable=False).proven is False


@pytest.mark.parametrize(
    ("error_class", "message"),
    [
        ("java.io.IOException", "No space left on device"),
        ("java.io.FileNotFoundException", "/x (Too many open files)"),
        ("org.apache.kafka.common.errors.TimeoutException", "Timed out waiting for a node assignment"),
        ("java.net.ConnectException", "Connection refused"),
        ("org.apache.spark.rpc.RpcEndpointNotFoundException", "Cannot find endpoint"),
        ("java.lang.ClassNotFoundException", "com.acme.Provider"),
        ("org.apache.spark.SparkException", "Python worker failed to connect back."),
        ("STDS_COMMITTED_BATCH_UNAVAILABLE", "No committed batch found"),
        ("Py4JNetworkError", "Answer from Java side is empty"),
        ("org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException", "No AWS Credentials provided"),
        ("org.apache.hadoop.fs.s3a.auth.NoAwsCredentialsException", "Session credentials are missing"),
        ("org.apache.hadoop.fs.UnsupportedFileSystemException", 'No FileSystem for scheme "s3a"'),
        ("ConnectionRefusedError", "[Errno 111] Connection refused"),
    ],
)
def test_what_is_not_about_the_checkpoint_is_no_refusal(error_class: str, message: str) -> None:
    assert not is_refusal([*DAMAGED, SparkError(error_class=error_class, message=message)])


def test_without_an_error_nothing_is_refused() -> None:
    assert not is_refusal([])


def test_of_several_errors_the_innermost_condition_is_told() -> None:
    missing = SparkError(error_class="CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS", message="no 9.delta")

    assert (
        decisive_error([*DAMAGED[:2], missing, SparkError(error_class="java.io.FileNotFoundException", message="x")])
        == missing
    )
    assert decisive_error(DAMAGED) == DAMAGED[2]
