"""Numbers in prose are those of the code: each sentence is composed of the constant that it is about."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.savepoints.pool import sweep
from airflow_provider_ha.checkpoints.working.layered import garbage, purging
from airflow_provider_ha.config import Retention
from airflow_provider_ha.driver import script
from airflow_provider_ha.jobs.host import driver_log
from airflow_provider_ha.storage import probe
from airflow_provider_ha.storage.limits import S3Limits
from airflow_provider_ha.timings import Timings


DOCS = Path(__file__).parents[2] / "docs"
WORDS = {2: "two", 4: "four", 8: "eight"}
MIB = 1024 * 1024
S3, KEPT, T = S3Limits(), Retention(), Timings()
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

SENTENCES = [
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
    ("how-to/s3.md", f"of {WORDS[probe.RACERS]} creations of one object"),
    ("how-to/s3.md", f"exactly one succeeds, {WORDS[probe.ROUNDS]} times over"),
    ("reference/connection.md", f"(default {KEPT.runs}, at least 2)"),
    ("reference/connection.md", f"(default {KEPT.days:g}, at least 1)"),
    ("how-to/run-a-job.md", f"a suspended script has {script.EXIT_SECONDS:g} seconds"),
    ("how-to/read-logs.md", f"the last {driver_log.TAIL_LINES} lines of the lost driver"),
    ("explanation/security-model.md", f"the last {driver_log.TAIL_LINES} lines of a lost driver's log"),
    ("explanation/stores.md", f"within {garbage.GRACE // HOUR} hours before the last commit"),
    ("explanation/stores.md", f"what a batch of the last {purging.KEPT_BATCHES} needs"),
    ("explanation/stores.md", f"for {garbage.SLOT_GRACE // DAY} days, the record of the takeover"),
    ("how-to/s3.md", "younger than a day" if timedelta(days=1) == sweep.GRACE else f"{sweep.GRACE}"),
    ("how-to/zookeeper-lost.md", f"at most {T.session_timeout:g} seconds after ZooKeeper fell silent"),
]


@pytest.mark.parametrize(("page", "sentence"), SENTENCES)
def test_a_number_of_a_page_is_that_of_the_code(page: str, sentence: str) -> None:
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())

    assert " ".join(sentence.split()) in text
