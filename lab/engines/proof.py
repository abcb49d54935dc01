"""``make proof SUITE=engines``: every event of a standalone cluster, caused for real, with its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from lab import sitting
from lab.engines.rows import Row, rows
from lab.sitting import Sitting, commits, emptied, untrue
from lab.suite import Proof
from tests.support.engine_deaths.play import Outcome
from tests.support.engine_deaths.stage import OpenJob, stage


SITTING_SECONDS = 35 * 60.0  # after which no event is begun: the next call goes on
_COLUMNS = (
    "what happens",
    "the engine says",
    "proof of death",
    "after",
    "reported after",
    "processes left by then",
    "holds",
)

Done = sitting.Done[Outcome]
Progress = sitting.Progress[Outcome]


class EngineDeaths:
    """The suite.

    :param events: What is caused.
    :param sitting: Seconds after which no event is begun.
    """

    name = "engines"
    title = "What proves the death of a driver on a standalone cluster"

    def __init__(self, events: Sequence[Row] | None = None, sitting: float = SITTING_SECONDS) -> None:
        self._rows, self._sitting = rows() if events is None else tuple(events), sitting

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            "Two masters with recovery by ZooKeeper and two workers, each on a test host with its own processes, disk"
            " and name, are Spark's own; supervisor, ZooKeeper and signals are real, and a stand-in plays spark-submit."
            " Each event is caused while a driver runs. Times count from the event: to the answer of the engine, and to"
            " the supervisor's report. What the engine calls a proof leaves no process of the driver behind. ERROR, and"
            " no answer, prove nothing; there the supervisor's report does, or nothing. While no master answers the"
            " driver runs on, nothing is launched, and a driver that is lost uses up no attempt."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Cause the events that are left, and again those in which something did not hold."""
        now = Sitting(folder, Progress, Done, self._sitting, tell)
        left = [row for row in self._rows if row.name not in now]
        if left:
            with stage(emptied(folder / "stage")) as open_job:
                for row in left:
                    now.attempt(row.name, partial(caused, row, open_job))
        by_name = {row.name: row for row in self._rows}
        done = now.cells(by_name)
        lines = [line(by_name[name], seen.outcome) for name, seen in done.items()]
        rest = [by_name[name].event for name in now.rest(by_name)]
        return Proof(_COLUMNS, lines, untrue(done, now.failed), remark(done, rest))


def caused(row: Row, open_job: OpenJob) -> Outcome:
    """Cause an event to a new job, and judge what is seen."""
    with open_job() as job:
        return judged(row, row.play(job))


def judged(row: Row, outcome: Outcome) -> Outcome:
    """Return an outcome with what is wrong about the answer. Pure."""
    if (outcome.answer, outcome.proof) == (row.says, row.proof):
        return outcome
    sentence = f"The engine says {outcome.answer} (proof: {outcome.proof}), and {row.says} ({row.proof}) is expected."
    return outcome.model_copy(update={"wrong": [*outcome.wrong, sentence]})


def line(row: Row, outcome: Outcome) -> tuple[str, ...]:
    """Return the line of an event. Pure."""
    return (
        row.event,
        outcome.answer,
        "yes" if outcome.proof else "no",
        f"{outcome.seconds:.1f} s",
        "" if outcome.reported is None else f"{outcome.reported:.1f} s",
        str(outcome.left),
        "no" if outcome.wrong else "yes",
    )


def remark(done: Mapping[str, Done], rest: Sequence[str]) -> str:
    """Return what a reader has to know beside the table. Pure.

    :param rest: What was not caused yet.
    """
    return (
        f"Commit {commits(done)}. Spark {version('pyspark')}. Workers are given up after 12 s"
        " (`spark.worker.timeout`) and wait 5 s for the end of a driver (`spark.worker.driverTerminateTimeout`). Of two"
        " drivers of one submission, FAILED is that of the second; of processes left by then, those of the first."
        + (f" **Not caused yet:** {', '.join(rest)}." if rest else "")
    )
