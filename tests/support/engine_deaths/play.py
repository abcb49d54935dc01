"""Causes one death, or what looks like one, on a real standalone cluster, and writes down who said what, and when."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import psutil

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import EngineUnavailableError, OutcomeUnknownError
from airflow_provider_ha.host.engines.engine import (
    GoneSubmission,
    Observation,
    PendingSubmission,
    RunningSubmission,
    UnknownSubmission,
    observe_one,
)
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.recovery.restart_policy import attempts_used
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.jobs.submit.launch import ensure_submitted
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import PATIENCE, TestHost
from tests.support.clusters.standalone_jobs import OPTIONS, StandaloneJob
from tests.support.judged import Judged


TRY_SECONDS = 10.0  # between two recoveries while no master answers
ONE_ATTEMPT = OPTIONS.model_copy(update={"restart_attempts": 1})
FEW_TRIES = {"spark.worker.initialRegistrationRetries": "3", "spark.worker.maxRegistrationRetries": "1"}
"""A worker gives up after 10 to 30 s: its first tries come every 5 to 15 s, and it may fail once."""


class Outcome(Judged):
    """What was seen of one event.

    :param answer: The engine's answer that decides.
    :param proof: Whether it is a proof of death.
    :param seconds: From the event to that answer.
    :param reported: Seconds from the event to the supervisor's report; ``None`` for none.
    :param left: Processes of the driver that lived at the answer.
    :param wrong: What does not hold, one sentence each.
    """

    answer: str
    proof: bool
    seconds: float
    reported: float | None
    left: int
    wrong: list[str]


@dataclass
class Scene:
    """One submission, and what is seen of it from an event on."""

    job: StandaloneJob
    wrong: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def happen(self, event: Callable[[], object]) -> None:
        """Let it happen; times count from here."""
        self.began = time.monotonic()
        event()

    def expect(self, holds: object, sentence: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(sentence)

    def await_answer(self, kind: type[Observation]) -> tuple[Observation, float, int]:
        """Wait for an answer of that kind; returns it, its moment, and how many processes lived by then."""
        seen: list[tuple[Observation, float, int]] = []

        def answered() -> bool:
            found = self.job.observe()
            if isinstance(found, kind):
                seen.append((found, time.monotonic() - self.began, len(self.job.processes())))
            return bool(seen)

        wait_until(answered, timeout=PATIENCE, what=f"the answer {kind.__name__}")
        return seen[0]

    def await_end(self) -> float:
        """Wait until the supervisor has reported and every process is gone; returns the seconds to the report."""
        self.job.await_exit()
        reported = time.monotonic() - self.began
        wait_until(lambda: not self.job.processes(), timeout=PATIENCE, what="the end of all processes")
        return reported

    def outcome(self, found: tuple[Observation, float, int], reported: float | None = None) -> Outcome:
        """Return what was seen."""
        answer, seconds, left = found
        return Outcome(
            answer=words(answer),
            proof=isinstance(answer, GoneSubmission),
            seconds=seconds,
            reported=reported,
            left=left,
            wrong=self.wrong,
        )

    def dead(self) -> Outcome:
        """Wait for the proof of death and for the report; return what was seen."""
        found = self.await_answer(GoneSubmission)
        self.expect(found[2] == 0, "A process lived on when its death was proven.")
        return self.outcome(found, self.await_end())


def words(answer: Observation) -> str:
    """Return an answer in a word or two. Pure."""
    if isinstance(answer, GoneSubmission):
        return answer.proof.partition(" is ")[2].partition(":")[0]
    if isinstance(answer, UnknownSubmission):
        return "ERROR" if " is ERROR" in answer.reason else "no answer"
    return "SUBMITTED" if isinstance(answer, PendingSubmission) else "RUNNING"


def started(job: StandaloneJob, options: HaOptions = OPTIONS) -> tuple[Scene, TestHost]:
    """Return a scene with a driver that runs, and its host."""
    job.submit(options=options)
    return Scene(job), job.await_driver()


def ordered_end(job: StandaloneJob) -> Outcome:
    """The driver ends in order."""
    job.submit(mode="orderly")
    scene = Scene(job)
    job.await_exit()
    scene.began = time.monotonic()
    found = scene.await_answer(GoneSubmission)
    scene.expect("FINISHED" in words(found[0]), "The masters do not say FINISHED.")
    return scene.outcome(found, reported=0.0)


def rest_kill(job: StandaloneJob) -> Outcome:
    """The cluster is asked to end the driver."""
    scene, _ = started(job)
    scene.happen(lambda: job.engine.terminate(job.handle))
    return scene.dead()


def jvm_killed(job: StandaloneJob) -> Outcome:
    """SIGKILL of the JVM that the worker has started."""
    scene, host = started(job)
    scene.happen(host.jvm_of(job.submission_id).kill)
    return scene.dead()


def jvm_stopped(job: StandaloneJob) -> Outcome:
    """That JVM is stopped, then the cluster is asked to end the driver."""
    scene, host = started(job)
    host.jvm_of(job.submission_id).send_signal(signal.SIGSTOP)
    scene.happen(lambda: job.engine.terminate(job.handle))
    return scene.dead()


def supervisor_stopped(job: StandaloneJob) -> Outcome:
    """The supervisor is stopped, then that JVM is killed."""
    scene, host = started(job)
    host.supervisor_of(job.submission_id).send_signal(signal.SIGSTOP)
    scene.happen(host.jvm_of(job.submission_id).kill)
    return scene.dead()


def worker_frozen(job: StandaloneJob) -> Outcome:
    """The worker is frozen until the masters give it up, then goes on."""
    scene, host = started(job)
    worker = _worker(host)
    scene.happen(lambda: worker.send_signal(signal.SIGSTOP))
    try:
        found = scene.await_answer(UnknownSubmission)
    finally:
        worker.send_signal(signal.SIGCONT)
    scene.expect(found[2] > 0, "The driver ended although only its worker was frozen.")
    return scene.outcome(found, scene.await_end())


def worker_killed(job: StandaloneJob) -> Outcome:
    """SIGKILL of the worker."""
    scene, host = started(job)
    scene.happen(_worker(host).kill)
    found = scene.await_answer(UnknownSubmission)
    return scene.outcome(found, scene.await_end())


def host_lost(job: StandaloneJob) -> Outcome:
    """The host is lost, with its processes and its disk."""
    scene, host = started(job)
    scene.happen(host.lose)
    found = scene.await_answer(UnknownSubmission)
    scene.expect(job.newest.exit is None, "The death of a host that is gone was proven.")
    return scene.outcome(found)


def master_lost(job: StandaloneJob) -> Outcome:
    """SIGKILL of the master that leads; another one takes over."""
    scene, _ = started(job)
    active = job.cluster.active
    assert active is not None, "one leads"
    scene.happen(active.kill)
    scene.expect(isinstance(job.observe(), UnknownSubmission), "Something was said while no master led.")
    found = scene.await_answer(RunningSubmission)
    scene.expect(found[2] > 0, "The driver ended with its master.")
    return scene.outcome(found)


def two_launches(job: StandaloneJob) -> Outcome:
    """One submission is launched twice."""
    scene, _ = started(job)
    first = job.handle
    launched: list[DriverHandle] = []
    scene.happen(lambda: launched.append(job.engine.launch(job.ticket, None)))
    seen: list[Observation] = []

    def ended() -> bool:
        found = observe_one(job.engine, job.submission_id, launched[0])
        if isinstance(found, GoneSubmission):
            seen.append(found)
        return bool(seen)

    wait_until(ended, timeout=PATIENCE, what="the end of the second driver")
    seconds = time.monotonic() - scene.began
    scene.expect(job.handle == first and job.newest.exit is None, "The second driver has taken the first one's place.")
    running = RunningSubmission(first, host=job.host.address)
    scene.expect(job.observe() == running, "The first driver does not run any more.")
    return scene.outcome((seen[0], seconds, len(job.processes())))


class LosesTheAnswer(StandaloneEngine):
    """An engine whose master takes a submission, and whose answer never comes."""

    launched = 0

    def __init__(self, config: HaConfig) -> None:
        super().__init__(config, launch_seconds=PATIENCE)  # a busy machine starts two JVMs

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        super().launch(ticket, reserved)
        self.launched += 1
        raise OutcomeUnknownError("the answer was lost")


def answer_lost(job: StandaloneJob) -> Outcome:
    """The answer of a launch is lost."""
    engine = LosesTheAnswer(job.job.config)
    job.job = replace(job.job, engines=Engines({StandaloneEngine.name: engine}))
    scene = Scene(job)
    job.submit()
    attempt = ensure_submitted(job.job, 1, by="another process")
    job.await_driver()
    scene.expect((attempt, engine.launched) == (1, 1), "It was launched again.")
    return scene.outcome(scene.await_answer(RunningSubmission))


def no_room(job: StandaloneJob) -> Outcome:
    """No worker has room for the driver; then the cluster is asked to end it."""
    job.submit(driver_memory="900g")
    scene = Scene(job)
    scene.expect(isinstance(job.observe(), PendingSubmission), "A driver that waits is not pending.")
    scene.happen(lambda: job.engine.terminate(job.handle))
    return scene.outcome(scene.await_answer(GoneSubmission))


def masters_away(job: StandaloneJob, seconds: float) -> Outcome:
    """No master answers for so long; the driver runs on."""
    scene, _ = started(job)
    scene.happen(job.cluster.kill_masters)
    end = time.monotonic() + seconds
    alive = True
    while alive and time.monotonic() < end:
        alive = isinstance(job.observe(), UnknownSubmission) and bool(job.processes())
        time.sleep(1.0)  # nothing is waited for: all this time nothing may change
    scene.expect(alive, "The driver ended, or something was said of it, while no master answered.")
    for refuses in (lambda: job.engine.launch(job.ticket, None), lambda: job.engine.terminate(job.handle)):
        scene.expect(_raises(EngineUnavailableError, refuses), "Without a master an act was not refused.")
    _start_masters(job)
    found = scene.await_answer(RunningSubmission)
    scene.expect(job.newest.submission.attempt == 1, "It was submitted again.")
    return scene.outcome(found)


def lost_without_masters(job: StandaloneJob, seconds: float) -> Outcome:
    """No master answers for so long, and the driver is lost in this time."""
    scene, host = started(job, ONE_ATTEMPT)
    scene.happen(job.cluster.kill_masters)
    host.supervisor_of(job.submission_id).children()[0].kill()  # what plays the driver's own JVM
    reported = scene.await_end()
    _try_to_recover(scene, seconds - reported)
    _start_masters(job)
    return _recovered(scene, reported)


def worker_gives_up(job: StandaloneJob) -> Outcome:
    """No master answers until the worker has had its tries to reach one, and ends."""
    job.cluster.start_hosts_again(FEW_TRIES)
    try:
        scene, host = started(job, ONE_ATTEMPT)
        scene.happen(job.cluster.kill_masters)
        reported = scene.await_end()
        wait_until(lambda: host.worker is None, timeout=PATIENCE, what="the end of the worker")
        _try_to_recover(scene, TRY_SECONDS)
        for master in job.cluster.masters:
            master.start()
    finally:
        job.cluster.start_hosts_again({})
    return _recovered(scene, reported)


def _worker(host: TestHost) -> psutil.Process:
    worker = host.worker
    assert worker is not None, "it runs"
    return worker


def _try_to_recover(scene: Scene, seconds: float) -> None:
    """Try again and again, as a person or a watcher does, while no master answers: nothing may come of it."""
    job, end = scene.job, time.monotonic() + seconds
    while time.monotonic() < end:
        scene.expect(_raises(EngineUnavailableError, lambda: recover(job.job, by="test", wait=False)), "It was taken.")
        time.sleep(min(TRY_SECONDS, max(0.0, end - time.monotonic())))  # the pause between two tries
    run = job.job.runs.get(1)
    used = attempts_used(run.submissions, OPTIONS, job.job.clock.now())
    scene.expect(run.result is None and used == 0, f"{used} attempts were used up, the result is {run.result}.")


def _recovered(scene: Scene, reported: float) -> Outcome:
    """Recover, now that a master leads; return what was seen."""
    recover(scene.job.job, by="test", wait=False)
    scene.job.await_driver()
    return scene.outcome(scene.await_answer(RunningSubmission), reported)


def _start_masters(job: StandaloneJob) -> None:
    for master in job.cluster.masters:
        master.start()
    job.cluster.await_workers()


def _raises(kind: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except kind:
        return True
    return False
