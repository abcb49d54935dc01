"""Kills a savepoint's maker with SIGKILL before each step on the file system, then tries a second time.

``python tests/support/checkpoints/killed_attempts.py ACTION PLACE`` prints how many steps there were. The action is
done by real children, each of which kills itself one step later than the one before, until one reaches the end. After
each kill the target is complete or not there, a second try succeeds when it is not, and nothing is left beside it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.archive import export, unpack
from airflow_provider_ha.checkpoints.store.savepoints.creation import take
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import (
    DirectoryLayout,
    SavepointDirectory,
    read_savepoint,
)
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import SavepointSource
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_report import judge
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import restore
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.errors import ObjectExistsError
from tests.support.checkpoints.portable_helpers import QUERY, names_in, savepoint


_STEPS = frozenset({"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir"})


def main(action: str, place: Path) -> int:
    """Do *action* once for each of its steps; return how many there are."""
    directory, made = savepoint(place)
    live = place / "live" / QUERY
    export(directory, made, place / "sp.tar.gz")
    (place / "work").mkdir()
    target = place / "work" / ("made.tar.gz" if action == "export" else "made")
    actions: dict[str, tuple[Callable[[], object], Callable[[], None]]] = {
        "create": (
            lambda: take([SavepointSource(query=QUERY, directory=live)], DirectoryLayout(target)),
            lambda: _check_savepoint(target),
        ),
        "import": (lambda: unpack(place / "sp.tar.gz", target), lambda: _check_savepoint(target)),
        "export": (lambda: export(directory, made, target), lambda: _check_archive(target, place / "back")),
        "restore": (
            lambda: restore(SavepointDirectory(directory, made), target),
            lambda: _check_checkpoint(target / QUERY),
        ),
    }
    act, check = actions[action]
    step = 0
    while is_killed(act, step):
        existed = os.path.lexists(target)
        try:
            act()
        except ObjectExistsError:
            assert existed
        check()
        assert names_in(place / "work") == [target.name], (step, names_in(place / "work"))
        target.unlink() if target.is_file() else shutil.rmtree(target)
        step += 1
    check()
    return step


def is_killed(act: Callable[[], object], step: int) -> bool:
    """Do it in a child that kills itself before *step*; ``False`` when it came to the end."""
    child = os.fork()
    if not child:
        _kill_before(step)
        act()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    return status != 0


def _kill_before(step: int) -> None:
    left = step

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in _STEPS or writes:
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

    sys.addaudithook(count)


def _check_savepoint(target: Path) -> None:
    assert judge(read_savepoint(target), depth="full").restorable is True


def _check_archive(target: Path, back: Path) -> None:
    unpack(target, back)
    shutil.rmtree(back)


def _check_checkpoint(directory: Path) -> None:
    assert verify(LocalTree(directory)).startable is True


if __name__ == "__main__":
    sys.stdout.write(str(main(sys.argv[1], Path(sys.argv[2]))))
