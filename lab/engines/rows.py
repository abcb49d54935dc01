"""The events of the proof: what can end a driver on a standalone cluster, or looks as if it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.support.clusters.standalone_jobs import StandaloneJob
from tests.support.engine_deaths import play
from tests.support.engine_deaths.play import Outcome


AWAY_SECONDS = 600.0


@dataclass(frozen=True)
class Row:
    """One event.

    :param name: In progress files.
    :param event: For people.
    :param says: The engine's answer that has to come.
    :param proof: Whether that is a proof of death.
    :param play: Causes it.
    """

    name: str
    event: str
    says: str
    proof: bool
    play: Callable[[StandaloneJob], Outcome]


def rows(away: float = AWAY_SECONDS) -> tuple[Row, ...]:
    """Return all of them.

    :param away: Seconds for which no master answers.
    """
    minutes = f"{away / 60:.0f} min" if away >= 60 else f"{away:.0f} s"
    return (
        Row("ordered-end", "the driver ends in order", "FINISHED", proof=True, play=play.ordered_end),
        Row("rest-kill", "REST kill", "KILLED", proof=True, play=play.rest_kill),
        Row("jvm-killed", "SIGKILL of the JVM", "FAILED", proof=True, play=play.jvm_killed),
        Row("jvm-stopped", "SIGSTOP of the JVM, REST kill", "KILLED", proof=True, play=play.jvm_stopped),
        Row(
            "supervisor-stopped",
            "SIGSTOP of the supervisor, SIGKILL of the JVM",
            "FAILED",
            proof=True,
            play=play.supervisor_stopped,
        ),
        Row("no-room", "no worker has room, REST kill", "KILLED", proof=True, play=play.no_room),
        Row("worker-frozen", "SIGSTOP of the worker, then SIGCONT", "ERROR", proof=False, play=play.worker_frozen),
        Row("worker-killed", "SIGKILL of the worker", "ERROR", proof=False, play=play.worker_killed),
        Row("host-lost", "the host is lost with its disk", "ERROR", proof=False, play=play.host_lost),
        Row("master-lost", "SIGKILL of the leading master", "RUNNING", proof=False, play=play.master_lost),
        Row("two-launches", "one submission is launched twice", "FAILED", proof=True, play=play.two_launches),
        Row("answer-lost", "the answer of a launch is lost", "RUNNING", proof=False, play=play.answer_lost),
        Row(
            "masters-away",
            f"no master for {minutes}",
            "RUNNING",
            proof=False,
            play=partial(play.masters_away, seconds=away),
        ),
        Row(
            "lost-without-masters",
            f"no master for {minutes}, in which the driver is lost",
            "RUNNING",
            proof=False,
            play=partial(play.lost_without_masters, seconds=away),
        ),
        Row(
            "worker-gives-up",
            "no master until the worker gives up, which ends its driver",
            "RUNNING",
            proof=False,
            play=play.worker_gives_up,
        ),
    )
