"""Several processes look into large state: they say what one alone says, and none outlives its owner."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_ha.checkpoints.spark import state_content
from airflow_provider_ha.checkpoints.spark.files import FileGoneError
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.checkpoints.spark.sst_table import TableDataError
from airflow_provider_ha.checkpoints.spark.state_content import ChecksumMismatchError, ContentCheck, ContentResult
from airflow_provider_ha.checkpoints.spark.state_store import StateFile, StateFileKind
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.damage import flip_sst_unseen, halve, newest_sst, wrong_spark_crc
from tests.support.checkpoints.state_files import END, LZ4_END, lz4_block, write
from tests.support.spark.corpus import checkpoint_copy


pytestmark = pytest.mark.slow


RELEASE = release("4.2.0")
# Owns two processes that have nothing to do for a long time, and says who they are.
_OWNER = """
import sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from airflow_provider_ha.checkpoints.spark import state_content as crew
if __name__ == "__main__":
    pool = ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=crew._begin)
    list(pool.map(abs, range(2)))
    print(*[child.pid for child in active_children()], flush=True)
    time.sleep(600)
"""


@pytest.fixture
def all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let processes be worth it for the smallest state."""
    monkeypatch.setattr(state_content, "LARGE", 1)
    monkeypatch.setattr(state_content, "WORTH", 1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many processes each pool was made of."""
    found: list[int] = []

    def making(count: int, **kwargs: Any) -> Executor:
        found.append(count)
        return ProcessPoolExecutor(count, **kwargs)

    monkeypatch.setattr(state_content, "ProcessPoolExecutor", making)
    return found


def another_format(checkpoint: Path) -> None:
    """Let a table be of a format that is not known."""
    table = newest_sst(checkpoint)
    table.write_bytes(table.read_bytes()[:-8] + (0x8242229663BF9564).to_bytes(8, "little"))
    table.with_name(f".{table.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    "damage",
    [halve("state/0/0/9_*.zip"), flip_sst_unseen, wrong_spark_crc("state/0/0/9_*.zip.crc"), another_format],
    ids=["corrupt", "rows", "checksum", "unknown"],
)
@pytest.mark.usefixtures("all_is_large")
def test_two_processes_find_what_one_finds(damage: Callable[[Path], None], started: list[int], tmp_path: Path) -> None:
    copy = checkpoint_copy("rocksdb2", tmp_path / "c")
    damage(copy)

    alone = verify(LocalTree(copy), spark_version="4.2.0")
    together = verify(LocalTree(copy), spark_version="4.2.0", processes=2)

    assert together == alone
    assert alone.findings
    assert started == [2]


@pytest.mark.parametrize("error", [CheckpointCorruptError, ChecksumMismatchError, TableDataError, FileGoneError])
def test_an_error_is_the_same_in_another_process(error: type[CheckpointCorruptError]) -> None:
    made = error("state/0/0/1.delta", "it is cut", next_step="Look")

    again = pickle.loads(pickle.dumps(made))  # noqa: S301  # what this line made

    assert (type(again), again.path, again.reason, str(again)) == (error, made.path, made.reason, str(made))


@pytest.mark.usefixtures("all_is_large")
def test_ctrl_c_which_reaches_the_whole_group_is_left_to_the_owner(tmp_path: Path) -> None:
    write(tmp_path / "1.delta", (lz4_block(END), LZ4_END))
    file = StateFile("1.delta", (tmp_path / "1.delta").stat().st_size, StateFileKind.DELTA)
    content = ContentCheck(LocalTree(tmp_path), RELEASE)

    with state_content.helped(content, LocalTree(tmp_path), RELEASE, [file], 1):
        (helper,) = multiprocessing.active_children()
        os.kill(helper.pid or 0, signal.SIGINT)  # it has only just begun to start
        answer = content.elsewhere[file.path]()

    assert answer == ContentResult(None)


@pytest.mark.usefixtures("all_is_large")
def test_a_file_whose_process_was_killed_is_looked_into_here(tmp_path: Path) -> None:
    name = "1.delta"
    write(tmp_path / name, (lz4_block(END)[:-1], LZ4_END))
    file = StateFile(name, (tmp_path / name).stat().st_size, StateFileKind.DELTA)
    content = ContentCheck(LocalTree(tmp_path), RELEASE)

    with state_content.helped(content, LocalTree(tmp_path), RELEASE, [file], 1):
        for child in multiprocessing.active_children():
            child.kill()
            child.join()
        with pytest.raises(CheckpointCorruptError, match=r"1\.delta"):
            content(file)


@pytest.mark.usefixtures("all_is_large")
def test_helpers_that_die_before_they_know_all_files_leave_them_to_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dying(ProcessPoolExecutor):
        def submit(self, *words: Any, **named: Any) -> Future[Any]:
            asked = super().submit(*words, **named)
            for child in multiprocessing.active_children():
                child.kill()
            wait_until(asked.done, timeout=10, what="the end of the pool")
            return asked

    monkeypatch.setattr(state_content, "ProcessPoolExecutor", Dying)
    paths = [write(tmp_path / f"{number}.delta", (lz4_block(END)[:-1], LZ4_END)) for number in (1, 2)]
    files = [StateFile(path.name, path.stat().st_size, StateFileKind.DELTA) for path in paths]
    content = ContentCheck(LocalTree(tmp_path), RELEASE)

    with state_content.helped(content, LocalTree(tmp_path), RELEASE, files, 1):
        for file in files:
            with pytest.raises(CheckpointCorruptError, match=file.path):
                content(file)


def test_a_worker_process_has_no_answer_for_an_unreadable_file(tmp_path: Path) -> None:
    # A name longer than any file system has: not even root can read it.
    file = StateFile(f"{'x' * 300}.delta", 10, StateFileKind.DELTA)

    assert state_content._look(LocalTree(tmp_path), RELEASE, file) is None
    with pytest.raises(StorageUnavailableError):
        ContentCheck(LocalTree(tmp_path), RELEASE)(file)


def test_little_state_is_looked_into_by_this_process_alone(started: list[int], tmp_path: Path) -> None:
    assert verify(LocalTree(checkpoint_copy("rocksdb2", tmp_path / "c")), processes=2).startable

    assert started == []


def test_no_process_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    script = write(tmp_path / "owner.py", (_OWNER.encode(),))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        helpers = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
        owner.send_signal(signal.SIGKILL)

    assert len(helpers) == 2
    wait_until(lambda: not any(map(psutil.Process.is_running, helpers)), timeout=10, what="the end of the helpers")
