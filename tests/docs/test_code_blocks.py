"""Every code block of the documentation is code that runs.

``python`` blocks are DAG files and snippets: executed. ``bash`` blocks: the ones of the tutorial really run, in order,
in an empty directory; elsewhere each line must be a command that exists, with options that exist.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from tests.docs.blocks import Block, blocks_of
from tests.mutants.catalogue import read_toml
from tests.support.clusters.airflow_helpers import AS_LIBRARY


ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
SCRIPTS = ("count_words.py", "count_orders.py")  # for Spark to run
KNOWN_LANGUAGES = {"python", "bash", "text", "json"}


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_block_says_what_language_it_is(page: Path) -> None:
    languages = {block.language for block in blocks_of(page)}

    assert languages <= KNOWN_LANGUAGES


@pytest.mark.airflow
def test_python_blocks_run(tmp_path: Path) -> None:
    """One interpreter for all of them: importing Airflow is what takes the time."""
    program = tmp_path / "blocks.py"
    calls = [
        f"exec(compile({block.text!r}, {f'{page_id(page)}:{block.line}'!r}, 'exec'), {{'__name__': '__main__'}})"
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "python" and block.title not in SCRIPTS
    ]
    program.write_text("\n".join(calls), encoding="utf-8")
    environment = {**os.environ, **AS_LIBRARY, "AIRFLOW_HOME": str(tmp_path / "airflow")}

    done = subprocess.run(
        [sys.executable, str(program)], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert len(calls) >= 4
    assert done.returncode == 0, done.stderr


RUN = ("tutorial.md", "standalone-from-nothing.md")  # pages that are run as they are; see the other tests of them
# Blocks of the tutorial that change the environment: checked, not run.
INSTALLING = ("pip install", "uv pip install", "make venv")


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_bash_lines_name_commands_that_exist(page: Path) -> None:
    for block in blocks_of(page):
        if block.language == "bash" and (page.name not in RUN or block.text.startswith(INSTALLING)):
            for line in command_lines(block):
                assert_command_exists(line, where=f"{page_id(page)}:{block.line}: {line}")


def command_lines(block: Block) -> list[str]:
    joined = block.text.replace("\\\n", " ")
    return [line.split(" #")[0].strip() for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def assert_command_exists(line: str, *, where: str) -> None:
    words = shlex.split(line)
    while words and "=" in words[0]:
        words = words[1:]
    if not words or words[0] == "export":
        return
    if words[0] == "make":
        assert_make_targets([word for word in words[1:] if "=" not in word], where)
    elif words == ["airflow", "standalone"]:
        pass  # Airflow's own
    elif words[:3] == ["uv", "pip", "install"]:
        assert_installs(words[3:], where)
    elif words[:2] == ["pip", "install"]:
        assert_installs(words[2:], where)
    elif words[0] == "source":
        assert words[1:] == ["build/venv/bin/activate"], where
    elif words[0] == "spark-ha":
        assert_help_accepts(words[1:], where)
    elif words[:2] == ["airflow", "ha"]:
        assert_help_accepts(words[2:], where)
    else:
        pytest.fail(f"no check knows this command: {where}")


def assert_make_targets(targets: list[str], where: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in targets:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), where


def assert_installs(words: list[str], where: str) -> None:
    """The line installs the one wheel under constraints that there are, or adds extras to what is there."""
    project = read_toml(ROOT / "pyproject.toml")["project"]
    requirement, options = words[-1], tuple(words[:-1])
    name, _, extras = requirement.rstrip("]").partition("[")
    constrained = ("--constraint", "constraints.txt")
    assert (name, options) in {
        (project["name"], ()),
        ("$(ls dist/*.whl)", constrained),
        ("$(ls airflow_provider_ha-*.whl)", constrained),
    }, where
    assert set(filter(None, extras.split(","))) <= set(project["optional-dependencies"]), where


@cache
def help_of(*verbs: str) -> tuple[int, str]:
    """Return exit code and text; pages name the same commands again and again."""
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*verbs, "--help"])
    return shown.exit_code, shown.stdout


def assert_help_accepts(words: list[str], where: str) -> None:
    """The help of the very verb must name each option that the line uses."""
    verbs: list[str] = []
    for word in words:
        if word.startswith("-") or len(verbs) == 2:
            break
        verbs.append(word)
    code, shown = help_of(*verbs)
    assert code == 0, where
    ours = words[: words.index("--")] if "--" in words else words  # behind it are another program's
    for option in (word.split("=")[0] for word in ours if word.startswith("--")):
        assert option in shown, f"{option} is unknown: {where}"


def helps_with_examples() -> dict[str, list[str]]:
    """Return command -> the examples at the end of its help."""
    found = {}
    for noun, group in get_command(app).commands.items():  # type: ignore[attr-defined]  # a group
        for verb, command in getattr(group, "commands", {"": group}).items():
            lines = [line for line in (command.epilog or "").split("\n\n")[1:] if line]
            if lines:
                found[f"{noun} {verb}".strip()] = lines
    return found


@pytest.mark.parametrize("command", sorted(helps_with_examples()))
def test_examples_in_help_are_of_the_command_and_name_options_that_exist(command: str) -> None:
    for line in helps_with_examples()[command]:
        assert line.startswith(f"spark-ha {command} "), line
        assert_command_exists(line, where=f"the help of {command}: {line}")


def test_help_has_examples() -> None:
    assert {"job submit", "delete job"} <= set(helps_with_examples())


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.airflow
@pytest.mark.timeout(900)
def test_the_tutorial_works_word_for_word(tmp_path: Path) -> None:
    script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for block in blocks_of(ROOT / "docs" / "tutorial.md"):
        if block.title:
            target = tmp_path / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.language == "bash" and not block.text.startswith(INSTALLING):
            script.append(block.text)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SPARK_HA"))}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    log = tmp_path / "tutorial.log"

    with log.open("wb") as output:
        shell = subprocess.Popen(
            ["bash", "-c", "\n".join(script)],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        code = shell.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)  # its port is fixed: what is left would answer the next run

    text = log.read_text(encoding="utf-8")
    assert code == 0, text[-4000:]
    assert "FINISHED" in text
    (driver,) = (tmp_path / "ha").rglob("driver.log")
    assert re.findall(r"\w+Warning: .*", driver.read_text(encoding="utf-8")) == [], "the constraints go together"
