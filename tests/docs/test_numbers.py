"""Numbers in prose are those of the code: each sentence is composed of the constant that it is about.

What is no constant of this package has its reason in ``numbers.toml``: a default of another program, a measurement.
"""

from __future__ import annotations

import inspect
import re
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from airflow_provider_ha.airflow_side.page import actions, clusters, driver_logs
from airflow_provider_ha.api.documents import overview
from airflow_provider_ha.checkpoints.areas.layered import garbage, needs
from airflow_provider_ha.checkpoints.sources import input_files
from airflow_provider_ha.checkpoints.spark import files, state_content
from airflow_provider_ha.checkpoints.store import orphaned_blobs, payload_history
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_prefix, savepoint_restore
from airflow_provider_ha.cli import completion
from airflow_provider_ha.config import Retention
from airflow_provider_ha.coordination import leadership
from airflow_provider_ha.driver import script
from airflow_provider_ha.driver.checkpointing import progress, publish_loop
from airflow_provider_ha.driver.ending import process_end
from airflow_provider_ha.driver.members import housekeeping
from airflow_provider_ha.driver.standby import copy_refresh, spare_session, standby_driver
from airflow_provider_ha.fleet import cluster_leader
from airflow_provider_ha.fleet.notify import leadership as observed_leadership
from airflow_provider_ha.fleet.reconciler import ReconcileTimings
from airflow_provider_ha.host import process_tree
from airflow_provider_ha.host.archives import archive_store, jvm_command
from airflow_provider_ha.host.proof import main as proof
from airflow_provider_ha.host.supervisor import in_place, standby
from airflow_provider_ha.host.supervisor import main as supervisor
from airflow_provider_ha.jobs import job_stores, model, progress_history, run_history
from airflow_provider_ha.jobs.drivers import driver_log
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery import restart_policy
from airflow_provider_ha.jobs.removal import removal_records
from airflow_provider_ha.jobs.runs import standbys, submissions
from airflow_provider_ha.operators import _base
from airflow_provider_ha.storage import roots
from airflow_provider_ha.storage._webhdfs import HdfsLimits
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.timings import Timings
from airflow_provider_ha.triggers import _base as triggers
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from tests.docs.test_code_blocks import PAGES, page_id
from tests.docs.test_first_mistakes import MISTAKES
from tests.docs.test_prose import prose
from tests.mutants.catalogue import read_toml


def match_of(pattern: str, file: Path) -> str:
    """Return the figure that a file has, which is no Python or no module."""
    return str(re.findall(pattern, file.read_text(encoding="utf-8"))[0])


ROOT = Path(__file__).parents[2]
DOCS, PACKAGE = ROOT / "docs", ROOT / "airflow_provider_ha"
ALERTS = PACKAGE / "monitoring" / "spark-ha-alerts.yaml"
OTHERS = read_toml(Path(__file__).with_name("numbers.toml"))["other"]
# Their tables are written by the tests and benchmarks themselves.
GENERATED = {"docs/benchmarks.md", "docs/reference/proofs.md", "docs/reference/verdicts.md", "docs/reference/api.md"}
WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 8: "eight", 10: "ten", 0.5: "half a"}
MIB = 1024 * 1024
S3, HDFS, KEPT, T, HA = S3Limits(), HdfsLimits(), Retention(), Timings(), HaOptions()
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
CUT = T.session_timeout - 2 * T.heartbeat_interval - T.margin
TRIGGER = {name: each.default for name, each in inspect.signature(SparkHaClusterTrigger.__init__).parameters.items()}
RULES = {rule["alert"]: rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]}
UNINSPECTED = ("how-to/alerts.md", "reference/json.md", "how-to/metrics.md", "reference/events.md")
REFRESH = int(match_of(r"EVERY = (\d+);", PACKAGE / "airflow_side" / "page" / "static" / "page.js")) / 1000
GRACE = match_of(r"grace=(\d+)\.0", ROOT / "dags" / "alerts.py")
TRY = f"{_base.RETRY_DELAY.seconds} s apart"


def threshold(rule: str) -> int:
    """Return the figure beyond which an alert is raised."""
    return int(re.findall(r"> (\d+)", RULES[rule]["expr"])[0])


SENTENCES = [
    ("reference/restore-plan.md", f"Lengths of a batch of more than {input_files.MEASURED_AT_MOST:,} files"),
    ("how-to/s3.md", f"| to connect, per attempt | {S3.connect_timeout:g} s |"),
    ("how-to/s3.md", f"| without a byte of the answer, per attempt | {S3.read_timeout:g} s |"),
    ("how-to/s3.md", f"| attempts, the first included | {S3.attempts} |"),
    ("how-to/s3.md", f"| the whole call, repetitions and pauses included | {S3.deadline:g} s |"),
    ("how-to/s3.md", f"a call has ended when its {S3.deadline:g} s are over"),
    (
        "how-to/s3.md",
        f"{S3.part_size // MIB} MiB go up in parts, objects of more than {S3.copy_whole // MIB // 1024} GiB",
    ),
    ("how-to/s3.md", f"are copied in parts of {S3.copy_part // MIB} MiB"),
    ("how-to/s3.md", f"of {WORDS[roots.RACERS]} creations of one object"),
    ("how-to/s3.md", f"exactly one succeeds, {WORDS[roots.ROUNDS]} times over"),
    ("how-to/s3.md", f"objects of more than {savepoint_restore._WHOLE // MIB} MiB in blocks"),
    ("how-to/s3.md", f"older than {WORDS[savepoint_prefix.ABANDONED.days]} days by the store's clock"),
    ("how-to/s3.md", f"an attempt that takes more than {WORDS[savepoint_prefix.DURATION.days]} days fails"),
    ("how-to/hdfs.md", f"{HDFS.connect_timeout:g} s to connect, {HDFS.read_timeout:g} s without a byte of the answer"),
    ("how-to/hdfs.md", f"{WORDS[HDFS.attempts]} rounds over all name nodes with growing pauses, {HDFS.deadline:g} s"),
    ("reference/restore-plan.md", f"of more than {input_files.MEASURED_AT_MOST:,} files"),
    ("reference/connection.md", f"(default {KEPT.runs}, at least 2)"),
    ("reference/connection.md", f"(default {KEPT.days:g}, at least 1)"),
    ("how-to/run-a-job.md", f"a suspended script has {script.EXIT_SECONDS:g} seconds"),
    ("how-to/run-a-job.md", f"or at a stop, for at most {script.EXIT_SECONDS:g} seconds"),
    ("how-to/run-a-job.md", f"to end within {script.EXIT_SECONDS:g} seconds after the drained batches"),
    ("how-to/run-a-job.md", f"lived for {WORDS[HA.restart_reset_after / 60]} minutes resets the count"),
    ("how-to/run-a-job.md", f"any, {WORDS[restart_policy.WITHOUT_A_QUERY]} times at one place: an argument"),
    ("how-to/run-a-job.md", f"but an outage, {WORDS[restart_policy.WITHOUT_A_BATCH]} times at one place"),
    (
        "how-to/run-a-job.md",
        f"`application_failure_period` ({WORDS[HA.application_failure_period / 60]} minutes)",
    ),
    ("how-to/run-a-job.md", f"submit, restore, follow | {_base.FOLLOW_RETRIES}, {TRY}"),
    ("how-to/run-a-job.md", f"savepoint, stop, cancel | {_base.WAIT_RETRIES}, {TRY}"),
    ("how-to/run-a-job.md", f"sensors | {_base.WAIT_RETRIES}, {TRY}"),
    ("how-to/run-a-job.md", f"`SparkHaDeleteJobOperator` | {_base.WAIT_RETRIES}, {TRY}"),
    ("how-to/run-a-job.md", f"`SparkHaRecoverJobsOperator` | {_base.WAIT_RETRIES}, {TRY}"),
    (
        "how-to/run-a-job.md",
        f"restore drill | {_base.DRILL_RETRIES}, {_base.DRILL_RETRY_DELAY // MINUTE} minutes apart",
    ),
    ("how-to/read-logs.md", f"the last {driver_log.TAIL_LINES} lines of the lost driver"),
    ("how-to/read-logs.md", f"rotated from {HA.driver_log_mb} MB on"),
    ("how-to/read-logs.md", f"at most {WORDS[HA.driver_log_files]} files"),
    ("how-to/read-logs.md", f"written in {WORDS[process_tree.LOOK_SECONDS]} second"),
    ("explanation/security-model.md", f"the last {driver_log.TAIL_LINES} lines of a lost driver's log"),
    ("explanation/stores.md", f"within {garbage.GRACE // HOUR} hours before the last commit"),
    ("explanation/stores.md", f"over for less than {garbage.GRACE // HOUR} hours"),
    ("explanation/stores.md", f"a batch of the last {needs.KEPT_BATCHES} needs"),
    ("explanation/stores.md", f"for {garbage.SLOT_GRACE // DAY} days, the record of the takeover"),
    (
        "explanation/stores.md",
        f"{WORDS[roots.RACERS]} creations of one name at the same moment, {WORDS[roots.ROUNDS]} times over",
    ),
    ("how-to/zookeeper-lost.md", f"at most {T.session_timeout:g} seconds after ZooKeeper fell silent"),
    ("how-to/standalone-from-nothing.md", f"the session of the leader after {T.session_timeout:g} s"),
    ("explanation/where-a-job-runs.md", f"T is the session timeout, {T.session_timeout:g} s by default"),
    ("explanation/where-a-job-runs.md", f"({CUT:g} s by default)"),
    ("explanation/coordination.md", f"the session timeout ({T.session_timeout:g} s by default)"),
    ("explanation/coordination.md", f"as the servers granted it | {T.session_timeout:g} s |"),
    ("explanation/coordination.md", f"only an answered *write* counts | {T.heartbeat_interval:g} s |"),
    ("explanation/coordination.md", f"margin | {T.margin:g} s |"),
    ("explanation/coordination.md", f"forward by more than {leadership.JUMP_SECONDS:g} s against"),
    ("explanation/coordination.md", f"or {payload_history.MOST_BYTES // MIB} MiB, the leader archives them"),
    ("explanation/coordination.md", f"at most every {WORDS[publish_loop.COLLECTION_INTERVAL / 60]} minutes"),
    ("explanation/coordination.md", f"all but the last {housekeeping.ATTEMPTS} attempts"),
    ("explanation/coordination.md", f"before its first batch, or {publish_loop.IDLE_SECONDS:.0f} s without one"),
    ("explanation/design.md", f"wait for the first batch, or {publish_loop.IDLE_SECONDS:.0f} s without one"),
    (
        "how-to/standby-drivers.md",
        f"{standby.FIRST_PAUSE:g} s, then {2 * standby.FIRST_PAUSE:g} s, up to {standby.LONGEST_PAUSE / 60:g} minutes",
    ),
    ("how-to/local-recovery.md", f"every {copy_refresh.REFRESH_SECONDS:g} s if there is a newer checkpoint"),
    ("how-to/local-recovery.md", f"at {copy_refresh.RATE // 10**6} MB/s at most"),
    (
        "how-to/standby-drivers.md",
        f"requested for {spare_session.ASK_SECONDS:g} s of every {spare_session.ASK_PERIOD:g} s",
    ),
    ("how-to/standby-drivers.md", f"not RUNNING for {spare_session.GIVE_BACK_SECONDS:g} s"),
    ("how-to/standby-drivers.md", f"not RUNNING for {standby.LEAVE_SECONDS:g} s"),
    ("how-to/standby-drivers.md", f"waits {standby.HAND_OVER_SECONDS:g} s for the batches in flight"),
    ("how-to/standby-drivers.md", f"does not take over within {standbys.TURN_SECONDS:g} s"),
    ("how-to/standby-drivers.md", f"After {standby_driver._RETRY_SECONDS / 60:g} minutes another process tries"),
    ("how-to/standby-drivers.md", f"the heap and {standby._BESIDE_HEAP // MIB} MiB free"),
    ("how-to/standby-drivers.md", f"within {'a quarter of an hour' if cluster_leader._LOOK_SECONDS == 900 else '?'}"),
    ("explanation/decisions.md", f"lets other hosts go first, for {WORDS[in_place.FIRST_TURN_SECONDS]} seconds"),
    ("explanation/decisions.md", f"no room for {supervisor.ROOM // MIB} MiB"),
    (
        "explanation/decisions.md",
        f"A compact entry may have {files.LARGEST_COMPACT // MIB // 1024} GiB",
    ),
    ("explanation/decisions.md", f"every other file that is held {files.LARGEST // MIB} MiB"),
    ("explanation/decisions.md", f"A limit of {files.LARGEST // MIB} MiB"),
    ("explanation/guarantees.md", f"ends by its timeout ({T.session_timeout:g} s by default)"),
    ("explanation/guarantees.md", f"the log get {WORDS[process_end.LAST_WORDS_SECONDS]} second"),
    ("explanation/guarantees.md", f"({process_end.WORDS_SECONDS:g} s when the driver led to its end)"),
    ("explanation/guarantees.md", f"({CUT:g} s by default; tests cut"),
    ("explanation/guarantees.md", f"set forward by more than {leadership.JUMP_SECONDS:g} s"),
    ("explanation/guarantees.md", f"its timeout ({T.heartbeat_interval + T.heartbeat_timeout:g} s by default)"),
    ("explanation/retention.md", f"newest {removal_records.PARTS * removal_records.PER_PART:,} requests of a job"),
    ("explanation/retention.md", f"notes about {removal_records.PARTS * removal_records.PER_PART:,} requests"),
    (
        "explanation/retention.md",
        f"{operations.KEPT_FOR // DAY} days, and no more than {operations.KEPT_AT_MOST} that are answered",
    ),
    ("explanation/retention.md", f"names them, and for {orphaned_blobs.MIN_AGE // HOUR} hours"),
    ("explanation/retention.md", f"together once in {orphaned_blobs.INTERVAL // HOUR} hours"),
    ("explanation/retention.md", f"A blob that is younger than {orphaned_blobs.MIN_AGE // HOUR} hours"),
    ("reference/command.md", f"older than {orphaned_blobs.MIN_AGE // HOUR} hours"),
    ("reference/command.md", f"its operations for {operations.KEPT_FOR // DAY} days"),
    ("reference/command.md", f"waits for ZooKeeper for {completion.SECONDS:g} seconds"),
    ("reference/json.md", f"older than {orphaned_blobs.MIN_AGE // HOUR} hours"),
    ("reference/json.md", f"younger than {orphaned_blobs.MIN_AGE // HOUR} hours"),
    ("reference/events.md", f"in the last {overview.DAY // HOUR} hours"),
    ("reference/metrics.md", f"in the last {overview.DAY // HOUR} hours"),
    ("reference/metrics.md", f"in the last {WORDS[leadership.LEAST_SECONDS / 60]} minutes"),
    ("reference/metrics.md", f"the newest {housekeeping.ATTEMPTS} attempts"),
    ("explanation/spark-facts.md", f"at least every {WORDS[progress.FALLBACK_SECONDS]} seconds"),
    ("how-to/alerts.md", "(`max_checkpoint_age` and `checkpoint_grace`"),
    (
        "how-to/alerts.md",
        f"after {(TRIGGER['max_checkpoint_age'] + TRIGGER['checkpoint_grace']) / 60:g} minutes",
    ),
    ("how-to/alerts.md", f"every {TRIGGER['repeat_after'] / 60:g} minutes (`repeat_after`)"),
    ("how-to/alerts.md", f"`no_leader` every {TRIGGER['repeat_after'] / 60:g} minutes"),
    ("how-to/alerts.md", f"after {HA.stall_timeout / 60:g} minutes (`stall_timeout`"),
    ("how-to/alerts.md", f"every {TRIGGER['remind_after'] / 3600:g} hours (`remind_after`)"),
    ("how-to/alerts.md", f"drills every {TRIGGER['drill_interval'] / 60:g} minutes"),
    ("how-to/disaster-recovery.md", f"{state_content.WORTH // MIB} MB of state"),
    ("how-to/metrics.md", f"STARTING for {RULES['SparkHaNotRunning']['for'].rstrip('m')} minutes"),
    ("how-to/metrics.md", f"reached for {WORDS[int(RULES['SparkHaLeaderLost']['for'].rstrip('m'))]} minutes"),
    ("how-to/metrics.md", f"failed for {WORDS[int(RULES['SparkHaCheckpointFailing']['for'].rstrip('m'))]} minutes"),
    ("how-to/metrics.md", f"falls back for {RULES['SparkHaLagGrows']['for'].rstrip('m')} minutes"),
    ("how-to/metrics.md", f"The default is {WORDS[HA.stall_timeout / 60]} minutes"),
    ("how-to/restore-drill.md", f"Up to {proof._SMALL // MIB} MiB"),
    ("how-to/restore-drill.md", f"Its lease ends {WORDS[job_stores.LEASE_SECONDS / 60]} minutes later"),
    ("how-to/scheduled-savepoints.md", f"protects it for {WORDS[job_stores.LEASE_SECONDS / 60]} minutes more"),
    ("how-to/scheduled-savepoints.md", f"for {WORDS[job_stores.RESTORE_LEASE_SECONDS / 60]} minutes from the plan"),
    ("how-to/use-the-page.md", f"(`restart_reset_after` ({HA.restart_reset_after / 60:g} minutes)"[1:]),
    ("how-to/use-the-page.md", f"waits {actions.ACT_SECONDS:g} s at most"),
    ("how-to/use-the-page.md", f"the last {driver_logs.LINES} lines"),
    ("how-to/use-the-page.md", f"at most {driver_logs.MOST // 1024} kB"),
    ("how-to/use-the-page.md", f"for at most {WORDS[clusters.SECONDS]} seconds"),
    ("how-to/use-the-page.md", f"*Restarts in {overview.DAY // HOUR} h*"),
    ("how-to/use-the-page.md", f"refreshes itself every {WORDS[REFRESH]} seconds"),
    ("how-to/use-the-page.md", f"reads the newest {run_history.RUNS} runs"),
    ("how-to/use-the-page.md", f"newest {WORDS[submissions.LOOPS_FROM]} attempts or more"),
    ("how-to/use-the-page.md", "between two attempts"),
    *(
        (page, f"no job for {WORDS[observed_leadership._NOT_INSPECTED_SECONDS / 60]} minutes")
        for page in UNINSPECTED[:2]
    ),
    *(
        (page, f"has inspected none for {WORDS[observed_leadership._NOT_INSPECTED_SECONDS / 60]} minutes")
        for page in UNINSPECTED[2:]
    ),
    (
        "how-to/recover-jobs.md",
        f"report {WORDS[observed_leadership._NOT_INSPECTED_SECONDS / 60]} minutes without one",
    ),
    ("explanation/retention.md", f"{archive_store.UNUSED.days} days after the last use | the training"),
    ("how-to/standby-drivers.md", f"another one waits for {standbys.TURN_SECONDS:g} s"),
    ("how-to/class-archives.md", f"no driver has used for {archive_store.UNUSED.days} days is removed"),
    ("how-to/class-archives.md", f"the heap has {jvm_command.LARGEST_HEAP >> 30} GiB or more"),
    ("how-to/recover-jobs.md", f"takes {'a quarter of an hour' if ReconcileTimings().act == 900 else '?'}"),
    ("how-to/alerts.md", f"within `grace` ({GRACE} s in the DAG)"),
    ("how-to/metrics.md", f"batches of {WORDS[threshold('SparkHaCheckpointOld') / 60]} minutes are committed"),
    ("how-to/metrics.md", f"a query is {threshold('SparkHaLagGrows'):,} rows behind"),
    (
        "how-to/metrics.md",
        f"more than {WORDS[threshold('SparkHaRestartsOften')]} restarts in {overview.DAY // HOUR} hours",
    ),
    ("how-to/alerts.md", f"`standby_missing` after {WORDS[model.STANDBY_PATIENCE / 60]} minutes"),
    (
        "how-to/metrics.md",
        f"`standby_drivers` requests, for {WORDS[int(RULES['SparkHaStandbyMissing']['for'].rstrip('m'))]} minutes",
    ),
    ("reference/events.md", f"than `standby_drivers` for {WORDS[model.STANDBY_PATIENCE / 60]} minutes"),
    ("reference/json.md", f"than it requests for {WORDS[model.STANDBY_PATIENCE / 60]} minutes"),
    ("how-to/metrics.md", f"tried again after {WORDS[publish_loop.PAUSE_AFTER_FAILURE]} seconds"),
    ("reference/metrics.md", f"the next attempt follows after {WORDS[publish_loop.PAUSE_AFTER_FAILURE]} seconds"),
    ("explanation/decisions.md", f"is tried again {WORDS[publish_loop.PAUSE_AFTER_FAILURE]} seconds later"),
    ("explanation/coordination.md", f"except once in {'a quarter of an hour' if triggers.FULL_LOOK == 900 else '?'}"),
    ("explanation/coordination.md", f"other job once {'a quarter of an hour' if triggers.FULL_LOOK == 900 else '?'}"),
    *(("tutorial.md", mistake.sentence) for mistake in MISTAKES),
    ("explanation/design.md", f"`progress/<{'six' if progress_history.PERIOD == 6 * HOUR else '?'} hours>"),
]

TIME = "s|ms|µs|seconds?|minutes?|min|hours?|h|days?|weeks?|months?|years?"
COUNTED = "attempts|tries|retries|times"
ALSO = "lines|rows|requests|submissions|drills|runs|files|operations|checkpoints"
SPELLED = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|ninety|hundred|"
    "half an?|a quarter of an"
)
NUMBER = re.compile(
    rf"(?<![\w.,/-])(?:\d[\d.,]*(?<=\d)[ -]?(?:{TIME}|[kKMGT]i?B|bytes|%|percent|{COUNTED}|{ALSO})"
    rf"|(?:{SPELLED}) (?:{TIME}|{COUNTED}))(?![\w-])|default(?:s to|:)? (?:is )?`?\d[\d.,]*"
)


def text_of(page: Path) -> str:
    """Return the prose of a page in one line."""
    return " ".join(prose(page).split())


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_a_number_of_a_page_is_that_of_the_code(page: str, sentence: str) -> None:
    assert " ".join(sentence.split()) in " ".join((DOCS / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: f"{other['page']}: {other['words']}")
def test_a_number_with_a_reason_is_still_on_its_page(other: dict[str, str]) -> None:
    assert other["words"] in text_of(ROOT / other["page"])
    assert other["reason"].endswith(".")


@pytest.mark.parametrize("page", [page for page in PAGES if page_id(page) not in GENERATED], ids=page_id)
def test_every_number_with_a_unit_is_of_the_code_or_has_its_reason(page: Path) -> None:
    name, text = page_id(page), text_of(page)
    known = [" ".join(sentence.split()) for of, sentence in SENTENCES if name == f"docs/{of}"]
    known += [other["words"] for other in OTHERS if other["page"] == name]
    covered = [match.span() for words in known for match in re.finditer(re.escape(words), text)]

    unknown = [
        text[max(0, match.start() - 50) : match.end() + 30]
        for match in NUMBER.finditer(text)
        if not any(begin <= match.start() and match.end() <= end for begin, end in covered)
    ]

    assert unknown == [], "compose the sentence of its constant in SENTENCES, or give its reason in numbers.toml"
