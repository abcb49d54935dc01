"""The demo's faults, report and clean-up: what proves a fault must be able to say that there was none."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.config import VARIABLES, HaConfig
from airflow_provider_ha.testing.waiting import wait_until
from tests.system.harness import processes
from tests.system.harness.compare import Comparison
from tests.system.harness.faults import Kill, Recovery, damage_checkpoint
from tests.system.harness.losses import Loss
from tests.system.harness.observer import exists, files_committed, rows_in, undisturbed
from tests.system.harness.report import Phase, Report, short
from tests.system.harness.servers import Servers


def kill(planned: int, committed: int) -> Kill:
    progress = {"hourly_delays": Progress(planned, committed)}
    return Kill(victim="jvm", epoch=1, at=time.time(), progress=progress, pids={"jvm": 1, "python": 2}, gone=(1, 2))


def recovery(epoch: int) -> Recovery:
    return Recovery(epoch=epoch, query="hourly_delays", batch=5, leader_seconds=1.0, seconds=2.0, rows_replayed=9)


EQUAL = Comparison("rows", expected=1, found=1, missing=0, unexpected=0, duplicated=0, wrong=0)
DIFFERENT = Comparison("rows", expected=1, found=0, missing=1, unexpected=0, duplicated=0, wrong=0)


@pytest.mark.parametrize(
    ("faults", "comparisons", "verdict"),
    [
        ([(kill(5, 4), recovery(2))], [EQUAL], True),
        ([(kill(4, 4), recovery(2))], [EQUAL], False),
        ([(kill(5, 4), recovery(1))], [EQUAL], False),
        ([(kill(5, 4), recovery(2))], [EQUAL, DIFFERENT], False),
        ([(kill(5, 4), recovery(2))], [], False),
    ],
    ids=["all is well", "no batch was in flight", "same epoch", "a row is missing", "nothing was compared"],
)
def test_the_verdict_needs_a_proven_fault_and_equal_results(
    faults: list[tuple[Kill, Recovery]], comparisons: list[Comparison], verdict: bool
) -> None:
    assert Report(kills=faults, comparisons=comparisons).verdict is verdict


def loss(**changes: Any) -> Loss:
    facts: dict[str, Any] = {
        "victim": "host-a with its disk",
        "is_of_driver": True,
        "in_flight": ("hourly_delays",),
        "gone": (1, 2),
        "left": (),
        "proof": "nothing: its session ended in ZooKeeper",
        "epochs": (1, 2),
        "hosts": ("host-a", "host-b"),
        "seconds": 30.0,
    }
    return Loss(**{**facts, **changes})


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        (loss(), True),
        (loss(is_of_driver=False, epochs=(2, 2)), True),
        (loss(is_of_driver=False), False),
        (loss(epochs=(2, 2)), False),
        (loss(in_flight=()), False),
        (loss(left=(2,)), False),
        (loss(proof=""), False),
    ],
    ids=[
        "a driver",
        "no driver",
        "a driver beside it",
        "a driver that led on",
        "no batch was in flight",
        "a process lives",
        "no proof",
    ],
)
def test_the_verdict_needs_a_loss_that_is_proven_and_the_leader_that_follows_from_it(lost: Loss, verdict: bool) -> None:
    assert Report(losses=[lost], comparisons=[EQUAL]).verdict is verdict


def test_the_table_says_who_proved_a_loss() -> None:
    text = io.StringIO()

    Report(losses=[loss()]).show(Console(file=text, width=140))

    assert "nothing: its session ended in ZooKeeper" in text.getvalue()
    assert "host-a -> host-b" in text.getvalue()


def test_the_report_proves_a_kill(tmp_path: Path) -> None:
    Report(kills=[(kill(5, 4), recovery(2))], comparisons=[EQUAL]).write(tmp_path / "report.json")

    [found] = json.loads((tmp_path / "report.json").read_text())["kills"]
    assert found["progress"] == {"hourly_delays": {"planned": 5, "committed": 4}}
    assert (found["epoch_before"], found["epoch_after"], found["gone"]) == (1, 2, [1, 2])
    assert (found["recovery"]["query"], found["recovery"]["batch"]) == ("hourly_delays", 5)


STATE_FILE = "hourly_delays/state/0/1/10_94caa4e7-3636-41f9-86b0-78d965ed7b7c.zip"


def test_the_table_breaks_no_word_at_100_columns() -> None:
    found = (
        f"checkpoint 12: {short(STATE_FILE)} cut in half, run from scheduled_savepoint-demo-2-savepoint-eff5434e3941"
    )
    text = io.StringIO()

    Report(phases=[Phase("restore the savepoint as two other jobs (disaster_recovery)", found=found)]).show(
        Console(file=text, width=100)
    )

    cells = [line.split("│")[3] for line in text.getvalue().splitlines() if line.startswith("│")]
    assert " ".join(" ".join(cells).split()) == found
    assert max(map(len, text.getvalue().splitlines())) <= 100


def test_a_path_for_people_has_the_beginning_of_its_uuid() -> None:
    assert short(STATE_FILE) == "hourly_delays/state/0/1/10_94caa4e7….zip"


def checkpoint(directory: Path, *, version: int, linked: Path | None = None) -> Path:
    """Make the pin of one query; *linked* is shared with an older pin."""
    own = (f"state/0/0/{version}_a.zip", f"offsets/{version - 1}", "metadata")
    for name in own:
        path = directory / "stats" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0123456789")
    if linked:
        os.link(linked, directory / "stats" / "offsets" / linked.name)
    return directory


def test_damage_hits_only_what_the_older_checkpoint_does_not_share(tmp_path: Path) -> None:
    older = checkpoint(tmp_path / "older", version=4)
    newest = checkpoint(tmp_path / "newest", version=5, linked=older / "stats" / "offsets" / "3")
    before = {path: path.read_bytes() for path in older.rglob("*") if path.is_file()}

    damage = damage_checkpoint(newest, older, number=2)

    assert (damage.truncated, damage.emptied) == ("stats/state/0/0/5_a.zip", "stats/offsets/4")
    assert (newest / damage.truncated).read_bytes() == b"01234"
    assert (newest / damage.emptied).read_bytes() == b""
    assert {path: path.read_bytes() for path in before} == before


@pytest.fixture
def query(tmp_path: Path) -> Path:
    """A checkpoint that has committed batch 10 and planned batch 11; every batch read one file with two rows."""

    def log(name: str, *batches: int) -> None:
        entries = ({"path": (tmp_path / f"{batch}.csv").as_uri(), "batchId": batch} for batch in batches)
        (tmp_path / "sources" / "0" / name).write_text("\n".join(("v1", *map(json.dumps, entries))))

    for directory in ("offsets", "commits", "sources/0"):
        (tmp_path / directory).mkdir(parents=True)
    log("9.compact", *range(10))
    log("10", 10)
    log("11", 11)
    for batch in range(8, 12):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{batch}}}')
        (tmp_path / f"{batch}.csv").write_text("header\nrow\nrow\n")
    (tmp_path / "commits" / "10").touch()
    return tmp_path


def test_only_committed_input_files_count(query: Path) -> None:
    assert files_committed(LocalTree(query)) == 11


def test_the_rows_of_a_batch_are_those_of_its_own_files(query: Path) -> None:
    assert rows_in(LocalTree(query), [9, 10]) == 4


@pytest.mark.slow
def test_the_clean_up_ends_only_processes_of_the_demo(tmp_path: Path) -> None:
    nap = [sys.executable, "-c", "import time; time.sleep(60)"]
    # A separate session, as Airflow's workers have, started by a process that the demo started.
    detach = "import subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
    processes.start([sys.executable, "-c", detach, *nap], home=tmp_path, env={}, log=tmp_path / "log").wait()
    with subprocess.Popen(nap, cwd=tmp_path) as stranger:
        wait_until(lambda: len(processes.of_home(tmp_path)) == 1, timeout=10, what="the detached process")
        [ours] = processes.of_home(tmp_path)

        processes.end_all(tmp_path)

        assert not exists(ours.pid)
        assert stranger.poll() is None
        stranger.kill()


def test_a_look_is_repeated_when_a_file_vanishes_meanwhile(tmp_path: Path) -> None:
    looks: list[str] = []

    def look() -> str:
        looks.append("look")
        if len(looks) == 1:
            (tmp_path / "renamed.dead").read_text()
        return "seen"

    assert undisturbed(look) == "seen"
    assert len(looks) == 2


def test_a_demo_that_stays_ends_with_what_the_next_job_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines make a shell in which `spark-ha` finds the demo's cluster."""
    servers = Servers(tmp_path / "a home")
    lines = servers.to_go_on()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for line in lines:
        if line.startswith("export "):
            name, _, value = shlex.split(line)[1].partition("=")
            monkeypatch.setenv(name, value)

    assert HaConfig.from_env() == servers.config
    assert lines[0].startswith("DAGs folder: /")
    assert lines[-1] == "make demo-stop ends it"
