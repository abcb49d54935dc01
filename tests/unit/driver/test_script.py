"""A script finds the Python that ``python SCRIPT`` gives it: main module, threads, hooks, signals, environment."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_ha.driver.script import Script


RUN = """
import json, sys
from pathlib import Path
from airflow_provider_ha.driver.script import Script
script = Script(Path(sys.argv[1]), sys.argv[2:])
failure = script.run()
print(json.dumps({"failure": failure, "signal": script.signals.received}))
"""


@dataclass
class Ended:
    """What is left of a script."""

    failure: str | None
    signal: int | None
    lines: list[str]
    errors: str


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "application"


def run(directory: Path, text: str, *arguments: str) -> Ended:
    directory.mkdir(exist_ok=True)
    script = directory / "app.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(script), *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    *lines, last = done.stdout.splitlines()
    said = json.loads(last)
    return Ended(said["failure"], said["signal"], lines, done.stderr)


def in_plain_python(directory: Path, text: str, *arguments: str) -> list[str]:
    directory.mkdir(exist_ok=True)
    script = directory / "app.py"
    script.write_text(text)
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nprint(sys.argv, sys.path[0])",
        "print(__name__, __file__, __package__, __spec__, __doc__, sorted(globals()))",
        "'''Words.'''\nprint(__doc__)",
        "import sys\nprint(sys.modules['__main__'].__dict__ is globals())",
        "import pickle\nclass A:\n    x = 1\nprint(pickle.loads(pickle.dumps(A())).x)",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\nprint(A())",
        (
            "import multiprocessing as m\ndef f(x):\n    return 2 * x\nif __name__ == '__main__':\n"
            "    with m.get_context('spawn').Pool(1) as pool:\n        print(pool.map(f, [1, 2]))"
        ),
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 3\nprint(asyncio.run(f()))",
        (
            "import signal\ndef f(*_): pass\nsignal.signal(signal.SIGTERM, f)\n"
            "print(signal.getsignal(signal.SIGTERM) is f)\nprint(signal.signal(signal.SIGTERM, signal.SIG_DFL) is f)"
        ),
        "import warnings\nprint(warnings.filters)",
        "import os\nprint(os.environ.get('NOT_SET', 'default'), 'NOT_SET' in os.environ, isinstance(os.environ, dict))",
        (
            "import threading, sys\ndef later():\n    print(sys.modules['__main__'].x)\nx = 5\n"
            "threading.Timer(0.2, later).start()"
        ),
        "import sys\nsys.exit(0)",
        "import sys\nsys.exit(256)",
        (
            "import threading, time\nmain = threading.main_thread()\ndef work():\n"
            "    while main.is_alive():\n        time.sleep(0.01)\n    main.join()\n    print('over')\n"
            "threading.Thread(target=work).start()\nprint(main.is_alive())"
        ),
        (
            "from concurrent.futures import ProcessPoolExecutor\ndef f(x):\n    return 2 * x\n"
            "if __name__ == '__main__':\n    pool = ProcessPoolExecutor(1)\n    print(pool.submit(f, 1).result())"
        ),
        (
            "import atexit\ntry:\n    atexit.register(3)\nexcept TypeError as error:\n    print(error)\n"
            "atexit.register(print, 'end')"
        ),
    ],
)
def test_a_script_sees_the_same_environment_as_in_plain_python(text: str, directory: Path) -> None:
    ended = run(directory, text, "one", "-two")

    assert ended.failure is None, ended.errors
    assert ended.lines == in_plain_python(directory, text, "one", "-two")


@pytest.mark.parametrize("end", ["sys.exit(3)", "raise ValueError", "pass"])
def test_a_process_that_a_script_forks_ends_as_in_a_plain_python(end: str, directory: Path) -> None:
    text = (
        "import atexit, os, sys, threading\natexit.register(print, 'last', flush=True)\n"
        f"child = os.fork()\nif not child:\n    threading.Timer(0.1, print, ['thread']).start()\n    {end}\n"
        "else:\n    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)\n"
    )

    ended = run(directory, text)

    assert ended.failure is None
    assert ended.lines == in_plain_python(directory, text)
    assert ended.errors.count("Traceback") == (end == "raise ValueError")


@pytest.mark.parametrize(
    "text",
    [
        "file = open(sys.argv[1], 'w')\nfile.write('row')",
        (
            "import tempfile, weakref\nkept = tempfile.TemporaryDirectory()\nprint(kept.name)\n"
            "weakref.finalize(kept, open, sys.argv[1], 'w')"
        ),
        (
            "import multiprocessing as m, time, signal\nfork = m.get_context('fork')\n"
            "def end():\n    time.sleep(0.3)\n    open(sys.argv[1], 'w').write('row')\n"
            "fork.Process(target=end).start()\nprint(fork.Process(target=signal.pause, daemon=True).start())"
        ),
    ],
    ids=["files", "finalizers", "child processes"],
)
def test_what_a_script_leaves_open_is_closed_as_by_the_end_of_a_plain_python(text: str, directory: Path) -> None:
    directory.mkdir()
    script, left = directory / "app.py", directory / "left"
    script.write_text(f"import sys\n{text}\n")
    libraries = "import multiprocessing.util, tempfile\nof_driver = tempfile.TemporaryDirectory()\n"
    end = (
        "\nfrom airflow_provider_ha.driver.ending.exit_reason import ExitCode\n"
        "from airflow_provider_ha.driver.ending.process_end import ProcessTerminator\n"
        "assert Path(of_driver.name).exists(), 'the driver works on'\n"
        "of_driver.cleanup()\nProcessTerminator(script.directory).leave(ExitCode.DONE)"
    )
    plain = subprocess.run([sys.executable, str(script), str(left)], check=True, capture_output=True, timeout=60)
    content = left.read_text()
    left.unlink()

    command = [sys.executable, "-c", libraries + RUN + end, str(script), str(left)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert left.read_text() == content
    assert len(done.stdout.splitlines()) == len(plain.stdout.splitlines()) + 1
    assert not Path(done.stdout.splitlines()[0]).is_dir()


@pytest.mark.parametrize("end", ["1 / 0", "sys.exit(4)"])
def test_what_a_function_for_the_end_raises_is_shown_as_in_python(end: str, directory: Path) -> None:
    text = f"import atexit, sys\ndef last():\n    {end}\natexit.register(last)\n"

    errors = run(directory, text).errors.splitlines()

    assert errors[0].startswith("Exception ignored in atexit callback: <function last at")
    assert "app.py" in errors[2]


def test_a_hook_for_exceptions_that_fails_is_shown_as_in_python(directory: Path) -> None:
    text = "import sys\ndef hook(*_):\n    raise RuntimeError('hook')\nsys.excepthook = hook\n1 / 0\n"
    directory.mkdir()
    (directory / "app.py").write_text(text)
    plain = subprocess.run([sys.executable, str(directory / "app.py")], capture_output=True, text=True, check=False)

    assert run(directory, text).errors == plain.stderr


@pytest.mark.parametrize(
    "text",
    [
        # Three ways to have something done in threads that nothing waits for.
        (
            "import threading\ndef work():\n    started.wait(); print('done')\nstarted = threading.Event()\n"
            "threading.Thread(target=work).start()\nthreading.Timer(0.3, started.set).start()"
        ),
        (
            "import time\nfrom concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\n"
            "pool.submit(time.sleep, 0.3)\npool.submit(time.sleep, 0.3)\npool.submit(print, 'done')"
        ),
        (
            "import threading\ndef inner():\n    print('done')\ndef outer():\n    threading.Timer(0.3, inner).start()\n"
            "threading.Thread(target=outer).start()"
        ),
    ],
    ids=["thread", "pool", "thread of a thread"],
)
def test_a_script_ends_with_its_last_thread(text: str, directory: Path) -> None:
    ended = run(directory, text)

    assert (ended.failure, ended.lines) == (None, ["done"])


def test_a_daemon_and_threads_of_the_driver_keep_no_script_alive(directory: Path) -> None:
    text = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nprint('end')"

    assert run(directory, text).lines == ["end"]


def test_a_pool_of_the_driver_is_not_closed_with_those_of_the_script(directory: Path) -> None:
    text = (
        "import sys, threading\n"
        "from airflow_provider_ha.checkpoints.spark import at_once\n"
        "threading.Timer(0.3, print, ['done']).start()\n"
    )
    beside = (
        "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(1)\npool.submit(print, 'first', flush=True).result()\n"
    )
    directory.mkdir()
    (directory / "app.py").write_text(text)
    after = "\nprint(pool.submit(str, 'open').result())"

    done = subprocess.run(
        [sys.executable, "-c", beside + RUN + after, str(directory / "app.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.splitlines()[-1] == "open"


def test_an_exception_that_ends_a_thread_is_the_failure_of_a_script_whose_main_thread_is_over(directory: Path) -> None:
    text = (
        "import threading\n"
        "def work():\n    raise ValueError('no such table')\n"
        "threading.Thread(target=threading.Event().wait, args=(600,)).start()\n"
        "threading.Thread(target=work).start()\n"
    )
    ended = run_and_leave(directory, text)

    assert ended == "app.py failed: ValueError: no such table"


def run_and_leave(directory: Path, text: str) -> str:
    directory.mkdir()
    (directory / "app.py").write_text(text)
    leave = RUN + "\nsys.stdout.flush()\nimport os\nos._exit(0)"  # as a driver ends
    command = [sys.executable, "-c", leave, str(directory / "app.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "Traceback" in done.stderr, "as Python shows it"
    return str(json.loads(done.stdout.splitlines()[-1])["failure"])


def test_the_exit_of_a_thread_is_no_failure(directory: Path) -> None:
    assert run(directory, "import sys, threading\nthreading.Thread(target=sys.exit, args=(3,)).start()").failure is None


def test_a_script_shows_its_exceptions_in_its_own_way(directory: Path) -> None:
    text = (
        "import sys\nsys.excepthook = lambda kind, error, trace: print(kind.__name__, error, trace.tb_lineno)\n1 / 0\n"
    )

    ended = run(directory, text)

    assert ended.lines == ["ZeroDivisionError division by zero 3"]
    assert ended.failure == "app.py failed: ZeroDivisionError: division by zero"


def test_a_traceback_begins_in_the_script(directory: Path) -> None:
    ended = run(directory, "def f():\n    raise ValueError('x')\nf()\n")

    assert "app.py" in ended.errors.splitlines()[1]
    assert "airflow_provider_ha" not in ended.errors


@pytest.mark.parametrize(
    ("call", "failure", "errors"),
    [
        ("sys.exit()", None, ""),
        ("sys.exit(3)", "app.py ended with sys.exit(3)", ""),
        ("sys.exit('no input')", "app.py ended with sys.exit('no input')", "no input\n"),
    ],
)
def test_an_exit_of_a_script_prints_the_same_text_as_in_python(
    call: str, failure: str | None, errors: str, directory: Path
) -> None:
    ended = run(directory, f"import sys\n{call}\n")

    assert (ended.failure, ended.errors) == (failure, errors)


def test_a_signal_that_a_script_handles_is_known_afterwards(directory: Path) -> None:
    text = (
        "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))\n"
        "os.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()\n"
    )

    ended = run(directory, text)

    assert (ended.failure, ended.signal) == (None, 15)


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.environ['ORDERS_TABLE']\n",
        (
            "import os\ndef table():\n    try:\n        return os.environ['ORDERS_TABLE']\n"
            "    except KeyError as error:\n        raise RuntimeError('not set up') from error\ntable()\n"
        ),
        "import os\nos.environ.get('ORDERS_TABLE').strip()\n",
        "import os\nopen(os.getenv('ORDERS_TABLE'))\n",
        "import os, sys\nif not os.getenv('ORDERS_TABLE'):\n    sys.exit(1)\n",
        "import os, sys\nif 'ORDERS_TABLE' not in os.environ:\n    sys.exit('set ORDERS_TABLE')\n",
        "import os\nif not os.environ.get('ORDERS_TABLE', ''):\n    raise RuntimeError('ORDERS_TABLE is needed')\n",
        "import os\nassert os.getenv('ORDERS_TABLE'), 'not set up'\n",
        "import os\nopen(os.path.expandvars('$ORDERS_TABLE/rows'))\n",
        "import os\nos.environb[b'ORDERS_TABLE']\n",
    ],
)
def test_a_variable_that_is_not_set_is_answered_with_the_way_to_give_it(text: str, directory: Path) -> None:
    failure = run(directory, text).failure

    assert failure is not None
    assert "reads ORDERS_TABLE of its environment" in failure
    assert "--env ORDERS_TABLE=..." in failure


@pytest.mark.parametrize(
    "text",
    [
        "{}['ORDERS_TABLE']\n",
        "import os\nos.environ.get('DEBUG', '')\nint('x')\n",
        "import os\nos.getenv('DEBUG')\nopen('/no/such/file')\n",
        "import tempfile\ntempfile.gettempdir()\nraise RuntimeError('no TEMP VIEW')\n",
    ],
)
def test_another_missing_key_says_nothing_of_the_environment(text: str, directory: Path) -> None:
    failure = run(directory, text).failure

    assert failure is not None
    assert "--env" not in failure


@pytest.mark.parametrize("place", ['"<frozen os>", line 679', '"/usr/lib/python3.10/os.py", line 680'])
def test_a_variable_that_a_function_of_an_executor_misses_is_answered_the_same_way(place: str) -> None:
    raised = "" if "frozen" in place else "    raise KeyError(key) from None\n"
    text = f"  File {place}, in __getitem__\n{raised}KeyError: 'ORDERS_TABLE'\n"

    assert "--env ORDERS_TABLE=..." in Script(Path("app.py"), ()).advice(text)
    assert Script(Path("app.py"), ()).advice("KeyError: 'ORDERS_TABLE'") == ""


@pytest.mark.parametrize("end", ["", "import sys\nsys.exit(0)", "import sys\nsys.exit(1)", "1 / 0"])
def test_functions_for_the_end_are_called_however_a_script_ends(end: str, directory: Path) -> None:
    text = (
        "import atexit\natexit.register(print, 'registered first')\n"
        "@atexit.register\ndef fails():\n    raise ValueError\n"
        "@atexit.register\ndef gone(): print('not registered any more')\n"
        "atexit.unregister(gone)\n"
        "atexit.register(print, 'registered', last=1) if False else atexit.register(print, 'last', end='!\\n')\n"
    )

    assert run(directory, text + end).lines == ["last!", "registered first"]


def test_functions_for_the_end_of_the_driver_are_not_called_with_those_of_the_script(directory: Path) -> None:
    directory.mkdir()
    (directory / "app.py").write_text("import atexit\natexit.register(print, 'of the script')\n")
    before = "import atexit\natexit.register(print, 'of the driver')\n"
    command = [sys.executable, "-c", before + RUN, str(directory / "app.py")]

    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()

    assert (lines[0], lines[-1]) == ("of the script", "of the driver")


def test_functions_that_take_too_long_do_not_keep_the_run_open(directory: Path) -> None:
    directory.mkdir()
    (directory / "app.py").write_text("import atexit, threading\natexit.register(threading.Event().wait)\n")
    driver = (
        "import os, sys\nfrom pathlib import Path\nfrom airflow_provider_ha.driver import script\n"
        "script.EXIT_SECONDS = 0.2\n"
        "def late(failure):\n    print('late', failure, flush=True)\n    os._exit(0)\n"
        "script.Script(Path(sys.argv[1]), []).run(late)\n"
    )
    command = [sys.executable, "-c", driver, str(directory / "app.py")]

    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "late None\n"


def test_the_root_logger_is_the_scripts_to_set_up(directory: Path) -> None:
    text = (
        "import logging, sys\nroot = logging.getLogger()\nprint(root.handlers, root.level)\n"
        "logging.basicConfig(stream=sys.stdout, level=logging.DEBUG, format='%(name)s %(message)s')\n"
        "logging.getLogger('app').debug('mine')\n"
        "logging.getLogger('airflow_provider_ha.driver').info('of the driver')\n"
    )
    directory.mkdir()
    (directory / "app.py").write_text(text)
    set_up = "from airflow_provider_ha.driver.script_environment import log_beside_the_script as f\nf()\n"
    command = [sys.executable, "-c", set_up + RUN, str(directory / "app.py")]

    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.splitlines()[:-1] == ["[] 30", "app mine"]
    assert "INFO airflow_provider_ha.driver: of the driver" in done.stderr
