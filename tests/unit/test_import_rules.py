"""Who may import whom (design, section 2), read from the source: no import is executed here."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import airflow_provider_ha
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.host.engines.registry import Engines


PACKAGE = Path(airflow_provider_ha.__file__).parent
ROOT = Path(__file__).parents[2]
SHARED = {"argument_secrets", "errors", "records", "names", "clock", "config", "timings", "redaction", "_version"}
SHARED |= {"query_names", "uris"}
AIRFLOW_FACING = {
    "compat",
    "hooks",
    "links",
    "notifications",
    "operators",
    "plugins",
    "sensors",
    "triggers",
    "get_provider_info",
}
STORES = {"checkpoints", "pointers", "coordination", "storage"}  # where the truth lies

# Layer -> layers that it may import beside itself. Arrows point down only.
ALLOWED: dict[str, set[str]] = {
    "_process": set(),
    "coordination": {"_process"},
    "storage": set(),
    "pointers": {"coordination", "storage"},
    "checkpoints": STORES,
    "jobs": {"pointers", "coordination", "storage"},
    "recovery": {"jobs", "coordination", "storage"},
    "driver": {"recovery", "jobs"} | STORES,
    "supervisor": {"driver", "engines", "recovery", "jobs", "_process"} | STORES,
    "proof": {"driver", "supervisor", "jobs", "checkpoints"},
    "engines": {"jobs", "storage"},
    "control": {"engines", "recovery", "jobs", "_process"} | STORES,
    "testing": {"coordination"},
    "views": {"control", "recovery", "jobs"} | STORES,
    "compat": set(),
    "links": {"compat"},
    "hooks": AIRFLOW_FACING | {"control", "engines", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "operators": AIRFLOW_FACING | {"views", "control", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "notifications": {"compat", "hooks", "links"},
    "plugins": {
        "compat",
        "hooks",
        "links",
        "views",
        "control",
        "recovery",
        "jobs",
        "checkpoints",
        "coordination",
        "storage",
    },
    "sensors": AIRFLOW_FACING | {"control", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "triggers": AIRFLOW_FACING | {"views", "control", "recovery", "jobs", "checkpoints", "coordination", "storage"},
    "cli": {"views", "control", "recovery", "jobs"} | STORES,
}
# What views are made from: snapshots and records, nothing that reads or writes.
VIEWED = {
    "argument_secrets",
    "query_names",
    "checkpoints.connectors.sink_names",
    "checkpoints.model",
    "checkpoints.proof.report",
    "checkpoints.restore.select",
    "checkpoints.retention.listing",
    "checkpoints.savepoints.judge",
    "checkpoints.verify.codes",
    "checkpoints.verify.findings",
    "checkpoints.verify.report",
    "checkpoints.working.layered.garbage",
    "control.administration.history",
    "recovery.losses",
    "control.administration.overview",
    "control.administration.prune",
    "control.administration.tree",
    "control.move.outcome",
    "control.rebuild",
    "control.reconcile.reconciler",
    "control.verification.verified_cut",
    "coordination.acls",
    "errors",
    "jobs.cluster",
    "jobs.failures",
    "jobs.history.drills",
    "jobs.history.last_verification",
    "jobs.host.log_place",
    "jobs.host.spark_page",
    "jobs.model",
    "jobs.moves",
    "jobs.options.ha_options",
    "jobs.options.lineage_conf",
    "jobs.presence",
    "jobs.runs",
    "jobs.status",
    "pointers.orphans",
    "pointers.ownership",
    "pointers.scan",
    "recovery.restart",
}
# What the supervisor needs of the driver whose death it proves. None of it needs PySpark.
DRIVER_FOR_SUPERVISOR = {"exit_codes", "failure", "housekeeping", "job_writer", "lead", "queries", "worker_imports"}
# Rooms of a layer, or modules beside them -> those that they may import.
ROOMS: dict[str, dict[str, set[str]]] = {
    "checkpoints": {
        "trees": set(),
        "format": {"trees"},
        "connectors": {"trees", "format"},
        "working": {"trees", "format", "connectors"},
        "verify": {"trees", "format", "connectors", "working"},
        "retention": {"trees", "working"},
        "savepoints": {"trees", "format", "connectors", "working", "verify", "retention"},
        "restore": {"trees", "format", "connectors", "working", "verify", "retention", "savepoints"},
        "proof": {"trees", "format", "working", "verify"},
    },
    "jobs": {
        "options": set(),
        "application": set(),
        "host": {"runs", "status", "submissions"},
        "retention": {
            "journal",
            "operations",
            "output_claims",
            "presence",
            "removed_runs",
            "runs",
            "submissions",
            "watchers",
        },
        "history": set(),
    },
    "control": {
        "job": set(),
        "submission": {"job", "rebuild"},
        "administration": {"job", "submission"},
        "restore": {"job", "submission"},
        "submit": {"job", "submission", "restore"},
        "job_client": {"job", "submission", "administration", "restore", "submit"},
        "move": {"job", "submission", "administration", "restore"},
        "client": {"job", "job_client", "move"},
        "verification": {"job"},
        "drills": {"job", "verification"},
        "rebuild": set(),
        "reconcile": {"job", "submission", "job_client", "client"},
        "erase": {"administration", "job", "client"},
        "services": {"job", "client", "erase", "reconcile"},
    },
}
# Foreign library -> modules that may import it at all.
OWNERS: dict[str, set[str]] = {
    "kazoo": {
        f"coordination/_kazoo{part}.py"
        for part in ("", "_acl", "_client", "_multi_read", "_reads", "_set_watches", "_transaction")
    },
    "boto3": {f"storage/{name}.py" for name in ("s3", "_s3_client", "_s3_errors")},
    "botocore": {f"storage/{name}.py" for name in ("s3", "_s3_client", "_s3_copy", "_s3_errors")},
    "confluent_kafka": {"checkpoints/sources/kafka_offsets.py"},
    "pyarrow": {"checkpoints/sinks/delta.py"},
    "py4j": {"host/supervisor/guardian.py"},
    "urllib3": {"host/engines/_master_rest.py", "storage/_webhdfs.py"},
    "greenlet": set(),
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def imported_names(path: Path) -> tuple[str, ...]:
    """Return what a module imports; each is parsed once for all rules."""
    names = list[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return tuple(names)


def layer_of(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "airflow_provider_ha" and len(parts) > 1 else None


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_layer_imports_only_the_layers_below_it(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = {layer} | ALLOWED.get(layer, set()) | SHARED | {"__version__"}
    if path.name == "airflow_entry.py":
        allowed = allowed | {"hooks"}  # `airflow ha` reads Airflow's connection
    if path == PACKAGE / "__init__.py":
        allowed = allowed | {"control", "jobs"}  # for type checkers; loaded when a name is first used

    used = {used for name in imported_names(path) if (used := layer_of(name)) is not None}

    assert used <= allowed


def test_every_folder_has_its_rules() -> None:
    folders = {path.parent.relative_to(PACKAGE) for path in modules()} - {Path()}

    assert {folder.parts[0] for folder in folders} == ALLOWED.keys()
    for layer, rooms in ROOMS.items():
        assert {folder.parts[1] for folder in folders if folder.parts[0] == layer and folder.parts[1:]} <= rooms.keys()


@pytest.mark.parametrize(("layer", "room"), [(layer, room) for layer in ROOMS for room in sorted(ROOMS[layer])])
def test_the_rooms_of_a_layer_import_one_way(layer: str, room: str) -> None:
    place = PACKAGE / layer / room
    used = {
        name.split(".")[2]
        for path in [*place.rglob("*.py"), place.with_suffix(".py")]
        if path.exists()
        for name in imported_names(path)
        if name.startswith(f"airflow_provider_ha.{layer}.")
    }

    assert used - {"model", room} <= ROOMS[layer][room]


def test_the_records_of_a_job_need_no_room_but_their_options() -> None:
    rooms = ROOMS["jobs"].keys()
    used = {
        (path.stem, name.split(".")[2])
        for path in (PACKAGE / "jobs").glob("*.py")
        for name in imported_names(path)
        if name.startswith("airflow_provider_ha.jobs.") and name.split(".")[2] in rooms
    }

    assert used == {("model", "options")}


def test_views_are_made_from_snapshots_and_records_only() -> None:
    used = {
        ".".join(name.split(".")[1:])
        for path in (PACKAGE / "views").glob("*.py")
        for name in imported_names(path)
        if layer_of(name) not in {None, "views"} and _is_module(name)
    }

    assert used <= VIEWED


def _is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def test_the_supervisor_needs_little_of_the_driver() -> None:
    used = {
        name.split(".")[2]
        for path in (PACKAGE / "supervisor").rglob("*.py")
        for name in imported_names(path)
        if name.startswith("airflow_provider_ha.driver.")
    }

    assert used <= DRIVER_FOR_SUPERVISOR


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in modules()}
    imported = {name: names.keys() & set(imported_names(path)) for name, path in names.items()}

    while free := {name for name, used in imported.items() if not used & imported.keys()}:
        for name in free:
            del imported[name]

    assert imported == {}, "these import each other, or something that does"


def test_only_what_opens_the_work_area_knows_its_path() -> None:
    users = {str(path.relative_to(PACKAGE)) for path in modules() if "work_path" in path.read_text(encoding="utf-8")}

    assert users == {"config.py", "checkpoints/areas/open_work_area.py"}


def test_a_public_module_of_operators_holds_an_operator() -> None:
    public = [path for path in (PACKAGE / "operators").glob("*.py") if not path.name.startswith("_")]
    helpers = [path.name for path in public if not re.search(r"\nclass SparkHa\w+Operator\(", path.read_text())]

    assert helpers == []


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


@pytest.mark.parametrize("folder", ["hooks", "operators", "sensors", "triggers"])
def test_names_of_airflow_come_from_the_compatibility_modules(folder: str) -> None:
    """An import at the head of a module fails with a foreign sentence where a release has not that name."""
    heads = {
        (path.name, name)
        for path in (PACKAGE / folder).rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }

    assert [found for found in heads if found[1].split(".")[0] == "airflow"] == []


def test_only_the_engines_compare_the_name_of_an_engine() -> None:
    names = set(Engines.of(HaConfig.build(zookeeper="zk:2181", storage_root="file:///s")).names)

    def compared(path: Path) -> bool:
        nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Compare)]
        parts = [part for node in nodes for part in (node.left, *node.comparators)]
        return any(isinstance(part, ast.Constant) and part.value in names for part in parts)

    elsewhere = [path for path in modules() if PACKAGE / "engines" not in path.parents]
    assert [str(path.relative_to(PACKAGE)) for path in elsewhere if compared(path)] == []
    assert [
        str(path.relative_to(PACKAGE))
        for path in elsewhere
        if any(
            name.startswith("airflow_provider_ha.host.engines.") and not _is_seam(name) for name in imported_names(path)
        )
    ] == []


def _is_seam(name: str) -> bool:
    return name.split(".")[2] in {"arrival", "engine", "registry"}


def test_only_drivers_and_proofs_import_pyspark() -> None:
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in modules()
        if any(name.split(".")[0] == "pyspark" for name in imported_names(path))
    }

    assert users <= {"driver", "proof"}


def test_only_the_laboratory_imports_itself() -> None:
    users = [
        path
        for folder in (PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "dags")
        for path in folder.rglob("*.py")
        if re.search(r"^\s*(from|import) lab\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]

    assert users == []


def test_the_laboratory_imports_helpers_of_tests_and_no_test() -> None:
    used = {name for path in (ROOT / "lab").rglob("*.py") for name in imported_names(path)}
    of_tests = {name.split(".", 2)[1] for name in used if name.startswith("tests.")}

    assert [name for name in used if re.search(r"^tests\.(.+\.)?test_", name)] == []
    assert of_tests <= {"support", "conftest", "fake", "mutants", "system"}


WITHOUT_AIRFLOW = (
    ("views", {"airflow", "kazoo", "boto3", "botocore", "pyspark"}),
    ("engines", {"airflow", "kazoo", "pyspark"}),
    ("supervisor", {"airflow", "pyspark"}),
    ("control", {"airflow", "pyspark"}),
    ("cli", {"airflow", "pyspark"}),
    ("driver", {"airflow"}),
)
BESIDE_AIRFLOW = tuple(
    (layer, {"kazoo", "boto3", "botocore", "pyspark"})
    for layer in ("links", "notifications", "operators", "sensors", "triggers", "hooks")
)
LOADED_IN_TURN = """
import importlib, sys
for layer, names, forbidden in {turns!r}:
    for name in names:
        importlib.import_module(name)
    found = sorted(set(forbidden) & set(sys.modules))
    if found:
        sys.exit(f"{{layer}} loads {{', '.join(found)}}")
"""


@pytest.mark.parametrize(
    "layers", [pytest.param(WITHOUT_AIRFLOW, id="without-airflow"), pytest.param(BESIDE_AIRFLOW, id="beside-airflow")]
)
@pytest.mark.slow
def test_importing_a_layer_does_not_load_what_it_must_not_need(layers: tuple[tuple[str, set[str]], ...]) -> None:
    """One process loads all in turn, the one that may need least first: each finds what it or an earlier one loaded."""
    turns = [(layer, importable(layer), sorted(forbidden)) for layer, forbidden in layers]

    done = subprocess.run(
        [sys.executable, "-c", LOADED_IN_TURN.format(turns=turns)], capture_output=True, text=True, check=False
    )

    assert all(names for _, names, _ in turns)
    assert all(forbidden >= later for (_, forbidden), (_, later) in itertools.pairwise(layers))
    assert done.returncode == 0, done.stderr


def importable(layer: str) -> list[str]:
    return [
        "airflow_provider_ha." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((PACKAGE / layer).glob("*.py"))
        if not path.name.startswith(("airflow_", "__main__", "bootstrap"))
    ]
