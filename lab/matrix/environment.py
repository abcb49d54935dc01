"""The environment of one cell: interpreter, packages, a tree with the wheel's own package, and its runs of pytest."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from lab.matrix.cells import Cell, Matrix
from tests.support.interpreters import interpreter
from tests.support.wheel import GIVEN


ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_ha"

_UV = Path(sys.executable).with_name("uv")  # .ci/bootstrap puts it there
_EXTRAS = "airflow,openlineage,spark,demo,test"
_BESIDE = (
    ".ci",
    ".github",
    "dags",
    "docs",
    "tests",
    "java",
    "CHANGELOG.md",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "constraints.txt",
    "mkdocs.yml",
    "pyproject.toml",
)
_QUICK = "not long and not hours and not spark and not system"
_LIMIT = 1800.0


class NotHereError(Exception):
    """The environment cannot be made on this host."""


class Environment:
    """One cell on this host.

    :param place: Folder for the environment, the tree and the logs.
    """

    # What judges the sources is the same in every cell.
    SUITES: ClassVar[dict[str, tuple[str, ...]]] = {
        "unit": ("tests/unit", "-m", _QUICK, "--ignore", "tests/unit/mutants", "--ignore-glob", "*/test_import_rules*"),
        "operators": ("tests/integration/airflow_side", "-m", _QUICK),
        "install": ("tests/system/test_install.py", "-k", "not resolve"),
        "airflow": ("tests/system/test_first_dag.py",),
    }

    def __init__(self, cell: Cell, place: Path) -> None:
        self.cell = cell
        self.place = place
        self._venv = place / "venv"
        self._tree = place / "tree"

    def make(self, wheel: Path) -> None:
        """Install the wheel, and lay the tests beside what it installed.

        :raises NotHereError: The interpreter is not there, or the packages cannot be installed.
        """
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self._install(wheel)
        self._tree.mkdir()
        for part in filter(Path.exists, (ROOT / name for name in _BESIDE)):
            if part.is_dir():
                shutil.copytree(part, self._tree / part.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(part, self._tree)
        (installed,) = self._venv.glob(f"lib/python*/site-packages/{PACKAGE}")
        (self._tree / PACKAGE).symlink_to(installed)

    def passes(self, suite: str, wheel: Path, workers: str) -> bool:
        """Run one suite; its output is in a file of its name."""
        program = [
            str(self._venv / "bin" / "python"),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *self._warnings(),
        ]
        variables = os.environ | {GIVEN: str(wheel), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
        variables.pop("PYTHONPATH", None)
        with (self.place / f"{suite}.log").open("w", encoding="utf-8") as log:
            try:
                done = subprocess.run(
                    [*program, "-n", workers, "--dist", "loadfile", *self.SUITES[suite]],
                    cwd=self._tree,
                    env=variables,
                    stdout=log,
                    stderr=log,
                    timeout=_LIMIT,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return False
        return done.returncode == 0

    def _warnings(self) -> list[str]:
        """Return options: what an older Airflow says of the newest providers beside it is no error of ours."""
        if self.cell.airflow == Matrix.read().airflow[-1] and not self.cell.lowest:
            return []
        kinds = ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
        return [word for kind in kinds for word in ("-W", f"ignore::{kind}")]

    def _install(self, wheel: Path) -> None:
        python = interpreter([int(self.cell.python.removeprefix("3."))])
        if python is None:
            raise NotHereError(f"no Python {self.cell.python} on this host")
        self._uv("venv", "--python", str(python), str(self._venv))
        here = str(self._venv / "bin" / "python")
        cell = [f"apache-airflow=={self.cell.airflow}", f"pyspark=={self.cell.pyspark}"]
        cell += Matrix.read().packages_beside(self.cell)
        lowest = ["--constraint", str(self._lowest(cell, here))] if self.cell.lowest else []
        self._uv("pip", "install", "--python", here, *lowest, f"{wheel}[{_EXTRAS}]", *cell, "uv")

    def _lowest(self, cell: list[str], python: str) -> Path:
        """Return constraints with the lowest releases of all that the project names: of a wheel uv takes the newest."""
        named, found = self.place / "cell.in", self.place / "lowest.txt"
        named.write_text("\n".join(cell), encoding="utf-8")
        extras = [word for extra in _EXTRAS.split(",") for word in ("--extra", extra)]
        project = [str(ROOT / "pyproject.toml"), str(named), *extras]
        self._uv(
            "pip", "compile", "--python", python, "--resolution", "lowest-direct", "--output-file", str(found), *project
        )
        return found

    def _uv(self, *arguments: str) -> None:
        variables = os.environ | {"UV_PYTHON_DOWNLOADS": "never"}
        done = subprocess.run([str(_UV), *arguments], env=variables, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            (self.place / "install.log").write_text(done.stderr, encoding="utf-8")
            raise NotHereError(
                f"not installed: {done.stderr.strip().splitlines()[-1] if done.stderr else arguments[0]}"
            )


def digest_of_tests(wheel: Path) -> str:
    """Return what a result belongs to: the wheel, the tests, and what they read beside it."""
    told = hashlib.sha256(wheel.read_bytes())
    files = sorted(
        path
        for part in map(ROOT.joinpath, _BESIDE)
        for path in ((part, *part.rglob("*")) if part.is_dir() else (part,))
        if path.is_file() and "__pycache__" not in path.parts
    )
    for file in files:
        told.update(f"{file.relative_to(ROOT)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return told.hexdigest()
