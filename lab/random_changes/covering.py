"""Which quick tests execute which line of the package, and how long each of them takes: recorded once, then kept.

One record per file of tests lies in ``build/mutants/covering``. It holds as long as that file, the helpers of the tests
and every file of the package that its tests execute are what they were. Only what does not hold is recorded again, some
files at a time, so a recording that was interrupted goes on where it was. Tests that start Spark are left out: they
would take hours with so many mutants. What a test executes in a process that it starts is not seen.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from coverage import CoverageData
from pydantic import BaseModel

from tests.mutants.catalogue import ROOT


PACKAGE = "airflow_provider_ha"
QUICK = "not long and not hours and not system and not spark"

_FILES_AT_A_TIME = 12


class Recorded(BaseModel):
    """What was seen of one file of tests.

    :param tests_digest: Of the file.
    :param digests: File of the package -> its digest, of every one that the tests execute.
    :param lines: File of the package -> line -> tests.
    :param imported: File of the package -> lines that were executed by its import.
    :param seconds: Test -> how long it took; without those that did not pass.
    """

    tests_digest: str
    digests: dict[str, str]
    lines: dict[str, dict[int, list[str]]]
    imported: dict[str, list[int]] = {}
    seconds: dict[str, float]


class Covering:
    """The tests of every line.

    :param recorded: File of tests -> what was seen of it.
    """

    def __init__(self, recorded: Mapping[str, Recorded]) -> None:
        self._recorded = recorded
        self.seconds = {test: seconds for one in recorded.values() for test, seconds in one.seconds.items()}

    def of_lines(self, file: str, lines: Iterable[int]) -> list[str]:
        """Return the tests that execute one of the lines, the quickest first."""
        wanted = set(lines)
        return self._quickest_first(
            test
            for one in self._recorded.values()
            for line, tests in one.lines.get(file, {}).items()
            if line in wanted
            for test in tests
        )

    def of_file(self, file: str) -> list[str]:
        """Return the tests that execute anything of a file after its import, the quickest first."""
        return self._quickest_first(
            test for one in self._recorded.values() for tests in one.lines.get(file, {}).values() for test in tests
        )

    def imported(self, file: str, lines: Iterable[int]) -> bool:
        """Whether one of the lines was executed while the module was imported."""
        wanted = set(lines)
        return any(not wanted.isdisjoint(one.imported.get(file, ())) for one in self._recorded.values())

    def _quickest_first(self, tests: Iterable[str]) -> list[str]:
        return sorted({test for test in tests if test in self.seconds}, key=lambda test: (self.seconds[test], test))


def covering(root: Path, place: Path, tell: Callable[[str], None], workers: int = 2) -> Covering:
    """Return the tests of every line, recorded where no record holds.

    :param root: The repository.
    :param place: Where the records are.
    :param tell: Receives how far it is.
    :param workers: Test processes; 0 for none beside pytest's own.
    """
    place.mkdir(parents=True, exist_ok=True)
    known = {name: _known(place, name) for name in _test_files(root)}
    stale = [name for name, one in known.items() if one is None or not _holds(root, name, one)]
    for first in range(0, len(stale), _FILES_AT_A_TIME):
        tell(f"recording what the quick tests execute: {first} of {len(stale)} files of tests")
        for name, one in _record(root, place, stale[first : first + _FILES_AT_A_TIME], workers).items():
            (place / _file_of(name)).write_text(one.model_dump_json(), encoding="utf-8")
            known[name] = one
    return Covering({name: one for name, one in known.items() if one is not None})


def _test_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py"))


def _file_of(name: str) -> str:
    return f"{name.removeprefix('tests/').removesuffix('.py').replace('/', '.')}.json"


def _known(place: Path, name: str) -> Recorded | None:
    try:
        return Recorded.model_validate_json((place / _file_of(name)).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _holds(root: Path, name: str, one: Recorded) -> bool:
    return one.tests_digest == digest(root / name) and all(
        digest(root / file) == known for file, known in one.digests.items()
    )


def digest(file: Path) -> str:
    """Return the digest of a file; empty when it is not there."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file.exists() else ""


def _record(root: Path, place: Path, names: Sequence[str], workers: int) -> dict[str, Recorded]:
    data, times = place / "run.coverage", place / "run.times"
    for left in (data, times):
        left.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", QUICK]
    command += ["-p", "lab.random_changes.timing"]
    command += ["-n", str(workers), "--dist", "loadfile"] if workers else []
    command += [f"--cov={PACKAGE}", "--cov-context=test", "--cov-report=", *names]
    environment = os.environ | {
        "COVERAGE_FILE": str(data),
        "MUTANT_TIMES": str(times),
        "PYTHONPATH": os.pathsep.join(map(str, dict.fromkeys((root, ROOT)))),
    }
    with (place / "run.log").open("w", encoding="utf-8") as log:
        subprocess.run(command, cwd=root, env=environment, stdout=log, stderr=log, check=False)
    seconds: dict[str, float] = json.loads(times.read_text(encoding="utf-8")) if times.exists() else {}
    lines = _lines(root, data)
    return {name: _recorded(root, name, lines, seconds) for name in names}


def _lines(root: Path, data: Path) -> dict[str, dict[int, list[str]]]:
    """Return file of the package -> line -> tests, of one run; a test without a name is the import."""
    if not data.exists():
        return {}
    seen = CoverageData(str(data))
    seen.read()
    return {
        str(Path(file).relative_to(root)): {
            line: sorted({context.rpartition("|")[0] for context in contexts})
            for line, contexts in seen.contexts_by_lineno(file).items()
        }
        for file in seen.measured_files()
        if Path(file).is_relative_to(root)
    }


def _recorded(
    root: Path, name: str, lines: Mapping[str, Mapping[int, Sequence[str]]], seconds: Mapping[str, float]
) -> Recorded:
    found: dict[str, dict[int, list[str]]] = defaultdict(dict)
    for file, by_line in lines.items():
        for line, tests in by_line.items():
            ours = [test for test in tests if test.startswith(f"{name}::")]
            if ours:
                found[file][line] = ours
    return Recorded(
        tests_digest=digest(root / name),
        digests={file: digest(root / file) for file in found},
        lines=dict(found),
        imported={file: [line for line, tests in lines[file].items() if "" in tests] for file in found},
        seconds={test: time for test, time in seconds.items() if test.startswith(f"{name}::")},
    )
