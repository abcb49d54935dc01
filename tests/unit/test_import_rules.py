"""Who may import whom (design, section 2), read from the source: no import is executed here."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider_ha


PACKAGE = Path(airflow_provider_ha.__file__).parent
SHARED = {"errors", "records", "names", "clock", "config", "timings", "redaction", "_version"}
AIRFLOW_FACING = {"hooks", "operators", "sensors", "triggers", "get_provider_info"}

# Layer -> layers that it may import. Arrows point down only.
ALLOWED: dict[str, set[str]] = {
    "coordination": {"coordination"},
    "storage": {"storage"},
    "pointers": {"pointers", "coordination", "storage"},
    "checkpoints": {"checkpoints", "pointers", "coordination", "storage"},
    "jobs": {"jobs", "pointers", "coordination", "storage"},
    "driver": {"driver", "recovery", "jobs", "checkpoints", "pointers", "coordination", "storage"},
    "recovery": {"recovery", "jobs", "coordination", "storage"},
    "submit": {"submit", "recovery", "jobs", "checkpoints", "pointers", "coordination", "storage"},
    "testing": {"testing", "coordination"},
    "hooks": AIRFLOW_FACING | {"submit", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "operators": AIRFLOW_FACING | {"submit", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "sensors": AIRFLOW_FACING | {"submit", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "triggers": AIRFLOW_FACING | {"submit", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "cli": {"cli", "submit", "recovery", "jobs", "checkpoints", "pointers", "coordination", "storage"},
}
# Foreign library -> modules that may import it at all.
OWNERS: dict[str, set[str]] = {
    "kazoo": {f"coordination/_kazoo{part}.py" for part in ("", "_acl", "_client", "_reads", "_transaction")},
    "boto3": {f"storage/{name}.py" for name in ("s3", "_s3_client", "_s3_errors")},
    "botocore": {f"storage/{name}.py" for name in ("s3", "_s3_client", "_s3_copy", "_s3_errors")},
    "confluent_kafka": {"checkpoints/restore/_kafka_client.py"},
    "pyarrow": {"checkpoints/directories/delta.py"},
    "greenlet": {"testing/fake/schedule.py"},  # installed with Airflow, and by who tests with actors
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "airflow_provider_ha" and len(parts) > 1 else None


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_layer_imports_only_the_layers_below_it(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = ALLOWED.get(layer, set()) | SHARED | {"__version__"}
    if path.name == "airflow_entry.py":
        allowed = allowed | {"hooks"}  # `airflow ha` reads Airflow's connection

    used = {used for name in imported_names(path) if (used := layer_of(name)) is not None}

    assert used <= allowed


# Inside checkpoints/, the same: how Spark writes, can it start, what is done with it, what is kept, what is restored.
CHECKPOINTS_ALLOWED: dict[str, set[str]] = {
    "format": set(),
    "verification": {"format", "directories"},
    "directories": {"format"},
    "retained": {"format", "verification", "directories"},
    "restore": {"format", "verification", "directories", "retained"},
    "portable": {"format", "verification", "directories", "retained"},
    "proof": {"format", "verification", "directories"},
    "pooled": {"format", "verification", "directories", "retained", "portable"},
}


@pytest.mark.parametrize("room", sorted(CHECKPOINTS_ALLOWED))
def test_the_rooms_of_checkpoints_import_one_way(room: str) -> None:
    used = {
        name.split(".")[2]
        for path in (PACKAGE / "checkpoints" / room).glob("*.py")
        for name in imported_names(path)
        if name.startswith("airflow_provider_ha.checkpoints.")
    }

    assert used - {"model", room} <= CHECKPOINTS_ALLOWED[room]


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_a_foreign_library_is_imported_in_one_place(library: str) -> None:
    users = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if any(name.split(".")[0] == library for name in imported_names(path))
    }

    assert users <= OWNERS[library]


def test_only_the_airflow_facing_parts_import_airflow() -> None:
    users = {
        path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for path in modules()
        if any(name.split(".")[0] == "airflow" for name in imported_names(path)) and path.name != "airflow_commands.py"
    }

    assert users <= AIRFLOW_FACING


def test_only_the_driver_imports_pyspark() -> None:
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in modules()
        if any(name.split(".")[0] == "pyspark" for name in imported_names(path))
    }

    assert users <= {"driver"}


@pytest.mark.parametrize(
    ("layer", "forbidden"),
    [
        ("driver", {"airflow"}),
        ("cli", {"airflow", "pyspark"}),
        ("operators", {"kazoo", "boto3", "botocore", "pyspark"}),
        ("sensors", {"kazoo", "boto3", "botocore", "pyspark"}),
        ("triggers", {"kazoo", "boto3", "botocore", "pyspark"}),
        ("hooks", {"kazoo", "boto3", "botocore", "pyspark"}),
    ],
)
def test_importing_a_layer_does_not_load_what_it_must_not_need(layer: str, forbidden: set[str]) -> None:
    names = [
        "airflow_provider_ha." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in sorted((PACKAGE / layer).glob("*.py"))
        if not path.name.startswith(("airflow_", "__main__", "bootstrap"))
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
        f"print(sorted(set({sorted(forbidden)!r}) & set(sys.modules)))"
    )

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.strip().splitlines()[-1] == "[]"
