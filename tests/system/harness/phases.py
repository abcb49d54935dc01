"""The steps of the demo. Each does one thing through a DAG, looks at what came of it, and says it in one line."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness import steps
from tests.system.harness.compare import compare_new_hours, read_hourly
from tests.system.harness.faults import (
    Victim,
    as_json,
    await_recovery,
    damage_checkpoint,
    kill_in_the_middle_of_a_batch,
)
from tests.system.harness.observer import rows_in
from tests.system.harness.outputs import LocalOutput
from tests.system.harness.report import Phase, short
from tests.system.harness.stage import MAIN_JOB, Stage
from tests.system.harness.steps import MANY_FILES, PATIENCE, UnexpectedError


DAGS = ("flight_delays", "scheduled_savepoint", "stop_job", "disaster_recovery")
COPY = "flight_delays_copy"  # restored from the savepoint, its output goes on where the first job's was
FRESH = "flight_delays_fresh"  # restored from the savepoint, its output holds only what is new

YEAR = 365
LATE = 5  # days that arrive while the job is being terminated
# Each phase that needs batches feeds further days, so that none finds the input read to its end. Days fed at the
# end of each:
_FIRST, _SUBMITTED, _SAVED, _PYTHON_KILLED, _JVM_KILLED, SUSPENDED = 30, 70, 120, 190, 260, 330


def wait_for_servers(stage: Stage, phase: Phase) -> None:
    """Wait for ZooKeeper and Airflow; feed the first days in that time."""
    stage.feeder.feed_until(_FIRST)
    stage.servers.wait_until_healthy()
    stage.servers.wait_for_dags(*DAGS)
    for dag_id in DAGS:
        if dag_id != "scheduled_savepoint":  # its schedule begins when there is a job
            stage.servers.api.unpause(dag_id)
    phase.found = f"Airflow is healthy at {stage.servers.url}"


def submit(stage: Stage, phase: Phase) -> None:
    """Submit the job; wait for a leader and the first checkpoint."""
    steps.feed(stage, _SUBMITTED)
    steps.submit(stage)
    snapshot = stage.job().snapshot()
    phase.found = (
        f"epoch {snapshot.epoch} leads, checkpoint {snapshot.latest_checkpoint} is there, the task is deferred"
    )
    phase.facts = {"epoch": snapshot.epoch, "checkpoint": snapshot.latest_checkpoint}


def savepoint(stage: Stage, phase: Phase) -> None:
    """Take a savepoint while the queries run."""
    stage.servers.api.unpause("scheduled_savepoint")
    steps.feed(stage, _SAVED)
    before = steps.read(stage)
    run = stage.run_dag("scheduled_savepoint", {"job_id": MAIN_JOB})
    result = stage.servers.api.xcom(run, "savepoint")
    stage.savepoint = result["savepoint_id"]
    phase.found = f"{stage.savepoint} is verified; {steps.read(stage) - before} files were read while it was taken"
    phase.facts = dict(result)


def kill_python(stage: Stage, phase: Phase) -> None:
    """Kill the driver's Python in the middle of a batch."""
    steps.feed(stage, _PYTHON_KILLED)
    _kill(stage, phase, "python")


def kill_jvm(stage: Stage, phase: Phase) -> None:
    """Kill the driver's JVM in the middle of a batch."""
    steps.feed(stage, _JVM_KILLED)
    _kill(stage, phase, "jvm")


def suspend(stage: Stage, phase: Phase) -> None:
    """Stop with a checkpoint; the run is FINISHED before the task succeeds."""
    steps.feed(stage, SUSPENDED)
    result = steps.stop(stage, MAIN_JOB, "suspend")
    progress = stage.job().progress()
    in_flight = {query: found for query, found in progress.items() if found.in_flight}
    if in_flight or not progress:
        raise UnexpectedError(f"{MAIN_JOB} was not stopped between two batches: {progress}")
    phase.found = f"FINISHED with checkpoint {result['checkpoint']}, nothing in flight"
    phase.facts = {"result": result, "progress": {query: found.committed for query, found in progress.items()}}


def damage(stage: Stage, phase: Phase) -> None:
    """Damage the newest checkpoint."""
    pins = stage.job().pins()
    older, number = sorted(pins)[-2:]
    stage.report.damage = damaged = damage_checkpoint(pins[number], pins[older], number=number)
    phase.found = f"checkpoint {number}: {short(damaged.truncated)} cut in half, {damaged.emptied} emptied"
    phase.facts = as_json(damaged)


def restore_after_damage(stage: Stage, phase: Phase) -> None:
    """Run the runbook: it must reject the damaged checkpoint and go on from the one before."""
    arguments = steps.arguments(stage, MAIN_JOB, max_files=MANY_FILES)
    run = stage.start_dag("disaster_recovery", {"source_job": MAIN_JOB, "job_id": MAIN_JOB, "arguments": arguments})
    stage.servers.api.wait_for_task(run, "wait_for_checkpoint", "success", timeout=PATIENCE)
    stage.main_run = run
    selection = stage.servers.api.xcom(run, "select_checkpoint")
    rejected = [candidate for candidate in selection["candidates"] if not candidate["accepted"]]
    if [candidate["number"] for candidate in rejected] != [stage.report.damage and stage.report.damage.checkpoint]:
        raise UnexpectedError(f"not just the damaged checkpoint was rejected: {selection['candidates']}")
    plan = stage.servers.api.xcom(run, "plan")
    replayed = {name: query["replayed"] for name, query in plan["queries"].items()}
    stage.report.rows_replayed = rows = _rows_replayed(stage, replayed)
    phase.found = (
        f"rejected {rejected[0]['source']} ({rejected[0]['file']}: {rejected[0]['reason']}); "
        f"restored {selection['chosen']['source']}, verdict {plan['verdict']}, {rows:,} rows replayed"
    )
    phase.facts = {"selection": selection, "plan": plan}


def _rows_replayed(stage: Stage, replayed: Mapping[str, list[int]]) -> int:
    """Return the input rows of the batches that the restore executes again, once all of them are planned.

    The queries replay one after the other, and a checkpoint may come before the last of them.
    """
    job = stage.job()

    def planned() -> bool:
        now = job.progress()
        return all(now[name].planned >= batch for name, batches in replayed.items() for batch in batches[-1:])

    wait_until(planned, timeout=PATIENCE, what="the replay to end")
    directory = job.directory()
    return sum(rows_in(directory / name, batches) for name, batches in replayed.items())


def restore_savepoint(stage: Stage, phase: Phase) -> None:
    """Restore the savepoint as two other jobs: one continues the output, one begins a fresh one."""
    runs = {}
    for job_id, output in ((COPY, "continue"), (FRESH, "fresh")):
        steps.copy_table(stage, job_id)
        runs[job_id] = stage.start_dag(
            "disaster_recovery",
            {
                "source_job": MAIN_JOB,
                "job_id": job_id,
                "start_from": f"savepoint-{stage.savepoint}",
                "output": output,
                "arguments": steps.arguments(stage, job_id, max_files=MANY_FILES),
                "accept_verdicts": ["SAFE", "LOSS_POSSIBLE"],  # each has its own table: only this stage knows it
            },
        )
    for run in runs.values():
        stage.servers.api.wait_for_task(run, "wait_for_checkpoint", "success", timeout=PATIENCE)
    phase.found = f"{COPY} and {FRESH} run from savepoint {stage.savepoint}"
    phase.facts = {job_id: stage.servers.api.xcom(run, "plan") for job_id, run in runs.items()}


def cancel(stage: Stage, phase: Phase) -> None:
    """Cancel one of the other jobs: it ends at once, and its latest pointer stays."""
    output = stage.output(FRESH)
    wait_until(lambda: next(read_hourly(output), None), timeout=PATIENCE, what=f"a new row of {FRESH}", interval=0.5)
    before = stage.job(FRESH).snapshot().latest_checkpoint
    stage.run_dag("stop_job", {"job_id": FRESH, "mode": "cancel"})
    snapshot = stage.job(FRESH).snapshot()
    if snapshot.state is not JobState.CANCELED or (snapshot.latest_checkpoint or 0) < (before or 1):
        raise UnexpectedError(f"{FRESH} is {snapshot.state.value} with checkpoint {snapshot.latest_checkpoint}")
    earlier = LocalOutput(stage.job().savepoint(stage.savepoint) / "sinks" / "hourly_delays")
    name = f"{FRESH}: hourly_delays, only what is new"
    result = compare_new_hours(stage.truth(YEAR), output, earlier, name=name)
    stage.report.comparisons.append(result)
    phase.found = (
        f"{FRESH} is CANCELED, its checkpoint {snapshot.latest_checkpoint} stays; its {result.found:,} new rows are "
        f"{result.verdict}"
    )


def terminate(stage: Stage, phase: Phase) -> None:
    """Terminate both jobs once they have read what there is; the last days arrive while the first job is stopping."""
    stage.feeder.pause()
    stage.feeder.feed_until(YEAR - LATE)
    for job_id in (COPY, MAIN_JOB):
        stage.wait_until_read(job_id, YEAR - LATE)
    steps.stop(stage, COPY, "terminate")
    stopping = stage.start_dag("stop_job", {"job_id": MAIN_JOB, "mode": "terminate"})
    job = stage.job()
    wait_until(job.stopped_sharply, timeout=PATIENCE, what="the checkpoint of the stop", interval=0.02)
    stage.feeder.feed_until(YEAR)
    stage.servers.api.wait_for_run(stopping, timeout=PATIENCE)
    stage.servers.api.wait_for_run(stage.main_run, timeout=PATIENCE)
    steps.compare(stage, MAIN_JOB, job.files_read(), "when it was terminated")
    steps.compare(stage, COPY, stage.job(COPY).files_read(), "restored from the savepoint")
    if (unread := YEAR - steps.read(stage)) != LATE:
        raise UnexpectedError(f"{LATE} files arrived while {MAIN_JOB} was terminated, and {unread} of them wait")
    phase.found = f"both are FINISHED; {unread} files arrived after the last batch and were not read"
    phase.facts = {MAIN_JOB: job.files_read(), COPY: stage.job(COPY).files_read()}


def go_on(stage: Stage, phase: Phase) -> None:
    """Run the job once more: it reads what arrived while it was terminated, and nothing twice.

    The drain gave the table a batch that cannot be taken back. The plan says so, and a user has to allow it: here it
    is harmless, because the application writes by key.
    """
    conf = {"source_job": MAIN_JOB, "job_id": MAIN_JOB, "accept_verdicts": ["SAFE"]}
    stage.main_run = stage.start_dag("disaster_recovery", conf)
    stage.servers.api.wait_for_task(stage.main_run, "wait_for_checkpoint", "success", timeout=PATIENCE)
    stage.wait_until_read(MAIN_JOB, YEAR)
    steps.stop(stage, MAIN_JOB, "terminate")
    plan = stage.servers.api.xcom(stage.main_run, "plan")
    phase.found = f"restored {plan['source']}, verdict {plan['verdict']}; {steps.read(stage)} files are read in all"
    phase.facts = {"plan": plan}


def compare(stage: Stage, phase: Phase) -> None:
    """Compare the result of the whole year with the truth, row for row."""
    steps.compare(stage, MAIN_JOB, dict.fromkeys(("hourly_delays", "long_delays"), YEAR), "the whole year")
    stage.report.checkpoints = stage.job().snapshot().checkpoint_counter
    compared = sum(result.expected for result in stage.report.comparisons)
    phase.found = f"{compared:,} rows: " + ("equal" if stage.report.verdict else "NOT equal")


def _kill(stage: Stage, phase: Phase, victim: Victim) -> None:
    job = stage.job()
    kill = kill_in_the_middle_of_a_batch(job, victim)
    recovery = await_recovery(job, kill)
    stage.report.kills.append((kill, recovery))
    wait_until(lambda: job.snapshot().checkpoint_counter, timeout=PATIENCE, what="a checkpoint")
    phase.found = (
        f"in the middle of a batch of {', '.join(kill.in_flight)}; epoch {kill.epoch} -> {recovery.epoch}, "
        f"first new commit after {recovery.seconds:.1f} s"
    )
    phase.facts = {"kill": as_json(kill), "recovery": as_json(recovery)}
