"""What pins, restores and starts rely on, for every kind of record of a sink's batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSinks
from airflow_provider_ha.checkpoints.sinks.file_sink_log import log_files
from airflow_provider_ha.checkpoints.sinks.sink_registry import SINK_TYPES, sink_connector, type_of
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings, SinkCase, SinkState, SinkType
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.errors import CheckpointCorruptError, ObjectExistsError, RestoreRefusedError
from tests.contract.sinks import OUTPUTS, Make, Output, Servers, connect, keep


LAST = 12  # a compact entry lies below it
CUT = 10


@pytest.fixture(params=["file", "file on s3", pytest.param("file on hdfs", marks=pytest.mark.long)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Make:
    servers = Servers(lambda: request.getfixturevalue("real"), lambda: request.getfixturevalue("hdfs"))
    return OUTPUTS[kind](tmp_path, servers)


@pytest.fixture
def empty(make: Make) -> Output:
    return make("empty")


@pytest.fixture
def output(make: Make) -> Output:
    """An output that has every batch up to the last one."""
    made = make("out")
    for batch in range(LAST + 1):
        made.write(batch)
    return made


def digest_of(output: Output, batch: int) -> str:
    digest = connect(output).digest(batch)
    assert digest is not None
    return digest


def test_an_output_reaches_its_highest_batch(output: Output, empty: Output) -> None:
    assert (connect(output).reached(), connect(empty).reached()) == (LAST, -1)


def test_a_digest_is_that_of_one_batch_and_of_its_content(make: Make, output: Output) -> None:
    other = make("other")
    other.write(0, "with another content")

    digests = {digest_of(output, 0), digest_of(output, 1), digest_of(other, 0)}

    assert len(digests) == 3
    assert connect(output).digest(LAST + 1) is None


def test_the_state_of_an_output_has_the_batches_above_the_cut(output: Output, tmp_path: Path) -> None:
    kept = keep(output, CUT, tmp_path / "kept")

    state = connect(output).state(CUT, LocalTree(kept))

    above = {batch: digest_of(output, batch) for batch in (11, 12)}
    assert state == SinkState(reached=LAST, digests=above, gone=False, log_kept=True)


def test_an_output_that_was_removed_is_gone_unless_the_cut_has_no_batch(output: Output, tmp_path: Path) -> None:
    kept = keep(output, CUT, tmp_path / "kept")
    output.remove()

    assert connect(output).state(CUT, LocalTree(kept)) == SinkState(gone=True, log_kept=True)
    assert not connect(output).state(-1, None).gone


def test_a_record_that_is_not_kept_is_missed(output: Output, tmp_path: Path) -> None:
    kept = keep(output, CUT, tmp_path / "kept")

    kept_to = [
        connect(output).state(batch, place).log_kept for batch, place in ((CUT, None), (CUT + 1, LocalTree(kept)))
    ]

    assert kept_to == [False, False]


def test_a_closure_that_is_not_whole_is_damage(output: Output) -> None:
    with pytest.raises(CheckpointCorruptError):
        log_files(connect(output).record(), LAST + 1)


def test_the_highest_batch_is_set_aside_once(output: Output) -> None:
    digest = digest_of(output, LAST)

    done = [connect(output).set_aside(LAST, digest) for _ in range(2)]

    assert done == [True, False]
    assert connect(output).reached() == LAST - 1


@pytest.mark.parametrize(("batch", "digest_from"), [(LAST, LAST - 1), (LAST - 1, LAST - 1)], ids=["other", "not-last"])
def test_no_other_batch_is_set_aside(output: Output, batch: int, digest_from: int) -> None:
    digest = digest_of(output, digest_from)

    with pytest.raises(RestoreRefusedError):
        connect(output).set_aside(batch, digest)

    assert connect(output).reached() == LAST


@pytest.mark.parametrize("mode", ["continue", "fresh"])
def test_a_seeded_output_continues_after_the_cut(output: Output, empty: Output, tmp_path: Path, mode: str) -> None:
    kept = keep(output, CUT, tmp_path / "kept")

    connect(empty).seed(CUT, mode, LocalTree(output.record(kept)))

    assert connect(empty).reached() == CUT
    assert connect(empty).state(CUT, None) == SinkState(reached=CUT, log_kept=False)
    with pytest.raises(ObjectExistsError):
        connect(empty).seed(CUT, mode, LocalTree(output.record(kept)))


def judged(output: Output, case: SinkCase) -> tuple[list[Verdict], dict[int, str]]:
    judgement = RestoreFindings("q")
    set_aside = connect(output).judge(case, judgement)
    return [finding.verdict for finding in judgement.findings], set_aside


def test_batches_that_are_executed_again_with_their_boundaries_are_safe(output: Output) -> None:
    state = connect(output).state(CUT, None)

    assert judged(output, SinkCase(CUT, state, top=LAST)) == ([], {})


def test_batches_without_boundaries_may_be_lost_and_would_be_set_aside(output: Output) -> None:
    state = connect(output).state(CUT, None)

    verdicts, set_aside = judged(output, SinkCase(CUT, state, top=CUT))

    assert (verdicts, set_aside) == ([Verdict.LOSS_POSSIBLE], dict(state.digests))


@pytest.mark.parametrize("own", [True, False], ids=["of-the-drain", "of-an-ordinary-batch"])
def test_only_the_very_record_of_a_drain_is_set_aside_without_a_loss(output: Output, own: bool) -> None:
    state = connect(output).state(CUT, None)
    digest = state.digests[LAST] if own else "another digest"

    verdicts, _ = judged(output, SinkCase(CUT, state, top=LAST - 1, drained=(LAST, digest)))

    assert verdicts == ([] if own else [Verdict.LOSS_POSSIBLE])


def test_an_output_that_lacks_batches_has_lost_them(output: Output) -> None:
    state = SinkState(reached=CUT - 3)

    assert judged(output, SinkCase(CUT, state, top=CUT))[0] == [Verdict.LOSS_POSSIBLE]


@pytest.mark.parametrize(("kept", "verdict"), [(True, Verdict.LOSS_POSSIBLE), (False, Verdict.IMPOSSIBLE)])
def test_an_output_that_is_gone_needs_its_kept_record(output: Output, kept: bool, verdict: Verdict) -> None:
    case = SinkCase(CUT, SinkState(gone=True, log_kept=kept), top=LAST)

    assert judged(output, case) == ([verdict], {})


@pytest.mark.parametrize(("kept", "verdicts"), [(True, []), (False, [Verdict.IMPOSSIBLE])])
def test_another_output_needs_the_kept_record_only(output: Output, kept: bool, verdicts: list[Verdict]) -> None:
    state = SinkState(reached=LAST + 5, log_kept=kept)

    assert judged(output, SinkCase(CUT, state, top=None)) == (verdicts, {})


def test_an_output_that_is_not_named_yet_has_nothing_and_lacks_nothing(make: Make) -> None:
    unnamed = make("out").sink.model_copy(update={"path": None})
    connector = sink_connector(unnamed)
    assert connector is not None
    judgement = RestoreFindings("q")

    set_aside = connector.judge(SinkCase(CUT, connector.state(CUT, None), top=CUT), judgement)

    assert (connector.reached(), judgement.findings, set_aside) == (-1, [], {})


def test_every_kind_with_a_connector_is_in_the_contract(make: Make) -> None:
    keeping = [each for each in SINK_TYPES if type(each).connector is not SinkType.connector]

    assert type_of(make("out").sink) in keeping
    assert [type(each) for each in keeping] == [FileSinks], "a new type needs its outputs in OUTPUTS"


@pytest.mark.parametrize("kind_without", sorted(set(SinkKind) - {SinkKind.FILE}))
def test_a_kind_that_keeps_no_record_has_no_connector(kind_without: SinkKind) -> None:
    assert sink_connector(QuerySink(kind=kind_without, path="/out")) is None


@pytest.mark.parametrize("dead", [True, False])
def test_what_a_living_writer_could_write_again_is_not_safely_set_aside(output: Output, dead: bool) -> None:
    state = connect(output).state(CUT, None)
    drained = (LAST, state.digests[LAST])

    verdicts, set_aside = judged(output, SinkCase(CUT, state, LAST - 1, drained, writers_dead=dead))

    assert set_aside == {LAST: state.digests[LAST]}
    safe = dead or not connect(output).needs_proof
    assert verdicts == ([] if safe else [Verdict.LOSS_POSSIBLE])
