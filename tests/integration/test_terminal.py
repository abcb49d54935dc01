"""The command at a terminal, as its process: colors, and completion by the shell."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


SPARK_HA = Path(sys.executable).with_name("spark-ha")
COLOR = b"\x1b[1;31m"  # bold and red, as an error is


def at_a_terminal(*words: str, **variables: str) -> bytes:
    """Return what a terminal gets of the command, which has no cluster and says so."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_HA_", "NO_COLOR"))}
    main, terminal = pty.openpty()
    with os.fdopen(main, "rb", buffering=0) as shown:
        done = subprocess.Popen(
            [SPARK_HA, *words],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=kept | {"TERM": "xterm-256color"} | variables,
        )
        os.close(terminal)
        said = b""
        while piece := _read(shown.fileno()):
            said += piece
        done.wait()
    return said


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


@pytest.mark.long
def test_no_color_is_honoured() -> None:
    colored, plain = at_a_terminal("job", "list"), at_a_terminal("job", "list", NO_COLOR="1")

    assert COLOR in colored
    assert b"error" in plain
    assert b"\x1b[31m" not in plain
    assert b";31m" not in plain


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "offered"),
    [("spark-ha clu", "cluster"), ("spark-ha job his", "history"), ("spark-ha cluster erase --d", "--dry-run")],
)
def test_the_shell_completes_nouns_verbs_and_options(line: str, offered: str) -> None:
    words = line.split()
    asked = {"_SPARK_HA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}

    done = subprocess.run([SPARK_HA], env={**os.environ, **asked}, capture_output=True, text=True, check=False)

    assert done.stdout.split() == [offered]
