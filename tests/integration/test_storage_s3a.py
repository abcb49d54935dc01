"""Spark's own checkpoints on S3 with the profile of the documentation, and what S3A does when two write one name."""

from __future__ import annotations

import json
import subprocess
import threading
from pathlib import Path

import pytest

from airflow_provider_ha.testing.waiting import wait_until
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.s3.s3a_program import APPS, ROWS_PER_BATCH, kill, running, write_conf


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.hours
def test_a_query_on_s3_that_is_killed_goes_on_where_it_was(s3: S3Access, tmp_path: Path) -> None:
    bucket, notes, log = s3.new_bucket(), tmp_path / "notes", tmp_path / "spark.log"
    notes.mkdir()
    command = (APPS / "s3a_counts.py", write_conf(tmp_path, s3, s3.endpoint), f"s3a://{bucket}/checkpoint", notes)

    def batches() -> list[int]:
        return sorted(int(path.name) for path in notes.iterdir() if path.name.isdigit())

    def reached(process: subprocess.Popen[bytes], batch: int) -> bool:
        assert process.poll() is None, log.read_text(encoding="utf-8")[-4000:]
        return bool(batches()) and batches()[-1] >= batch

    with running(log, *command) as process:
        wait_until(lambda: reached(process, 3), timeout=400, what="batch 3")
        kill(process)
    killed_at = batches()[-1]
    with running(log, *command) as process:
        wait_until(lambda: reached(process, killed_at + 3), timeout=400, what="three batches more")

    totals = {batch: int((notes / str(batch)).read_text(encoding="utf-8")) for batch in batches()}
    assert list(totals) == list(range(len(totals)))
    assert totals == {batch: ROWS_PER_BATCH * (batch + 1) for batch in totals}
    names = [item["Key"] for item in s3.client().list_objects_v2(Bucket=bucket)["Contents"]]
    assert [name for name in names if name.endswith((".changelog", ".zip")) and "_" in name.rpartition("/")[2]]
    assert [name for name in names if "tmp" in name] == []


@pytest.mark.hours
def test_of_two_who_write_one_name_on_s3_both_win_unless_s3a_is_asked_for_a_condition(
    s3: S3Access, tmp_path: Path
) -> None:
    """Both requests are held until both are there: each has looked, and seen nothing."""
    bucket, both, log = s3.new_bucket(), threading.Barrier(2), tmp_path / "spark.log"

    def hold(exchange: Exchange) -> None:
        exchange.body()
        both.wait(timeout=60)
        exchange.forward()

    names = ("spark", "plain", "conditional")
    held = [Fault(hold, "PUT", f"/offsets/{name}", times=FOR_EVER) for name in names]
    with s3_proxy(s3.endpoint, *held) as proxied:
        command = (APPS / "s3a_race.py", write_conf(tmp_path, s3, proxied), f"s3a://{bucket}/checkpoint/offsets")
        with running(log, *command) as process:
            output, _ = process.communicate(timeout=400)

    assert process.returncode == 0, log.read_text(encoding="utf-8")[-4000:]
    assert [fault.hits for fault in held] == [2, 2, 2]
    assert json.loads(output.splitlines()[-1]) == {"spark": 2, "plain": 2, "conditional": 1}
