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
from airflow_provider_ha.host.engines.arrivals import arrival_of
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.host.engines.table import ENTRIES
from airflow_provider_ha.jobs.runs.submissions import DriverHandle


PACKAGE = Path(airflow_provider_ha.__file__).parent
ENGINES = PACKAGE / "host" / "engines"
TABLE = "airflow_provider_ha.host.engines.table"
ROOT = Path(__file__).parents[2]
SHARED = {
    "argument_secrets",
    "errors",
    "records",
    "names",
    "clock",
    "config",
    "connection_groups",
    "timings",
    "redaction",
    "_version",
}
SHARED |= {"connection_groups", "query_names", "uris"}
AIRFLOW_FACING = {"airflow_side", "hooks", "operators", "sensors", "triggers", "get_provider_info"}
STORES = {"storage", "coordination", "checkpoints"}  # they hold the state of all jobs
BELOW_AIRFLOW = STORES | {"jobs", "host", "fleet", "api"}

# Layer -> layers that it may import besides itself. Arrows point down; modules never import each other in a circle.
ALLOWED: dict[str, set[str]] = {
    "storage": set(),
    "coordination": {"host"},  # an embedded ZooKeeper is a Java process that ends with its parent
    "checkpoints": {"storage", "coordination"},
    "jobs": STORES | {"host"},  # an action launches and cancels; the records that a driver reads import no host
    "driver": STORES | {"jobs"},
    "host": STORES | {"driver", "jobs"},
    "fleet": STORES | {"jobs", "api"},
    "api": STORES | {"host", "jobs", "fleet"},
    "testing": {"coordination"},
    "cli": STORES | {"jobs", "fleet", "api", "host"},  # the class archives of this host
    "airflow_side": STORES | {"jobs", "fleet", "api", "hooks"},
    "hooks": {"airflow_side", "get_provider_info", "api", "host", "jobs"},
    "operators": AIRFLOW_FACING | BELOW_AIRFLOW,
    "sensors": AIRFLOW_FACING | BELOW_AIRFLOW,
    "triggers": AIRFLOW_FACING | BELOW_AIRFLOW,
}
# Sources of the JSON documents: status and records, nothing that reads or writes.
VIEWED = {
    "argument_secrets",
    "checkpoints.areas.layered.garbage",
    "checkpoints.model",
    "checkpoints.ownership",
    "checkpoints.plan_model",
    "checkpoints.restore.select",
    "checkpoints.sinks.sink_registry",
    "checkpoints.store.orphaned_blobs",
    "checkpoints.store.pointer_scan",
    "checkpoints.store.pointer_store",
    "checkpoints.store.savepoints.savepoint_report",
    "checkpoints.verify.codes",
    "checkpoints.verify.proof_protocol",
    "checkpoints.verify.proof_result",
    "checkpoints.verify.verification_report",
    "errors",
    "fleet.fleet_overview",
    "fleet.reconciler",
    "jobs.condition",
    "jobs.drivers.driver_log",
    "jobs.job_graph",
    "jobs.model",
    "jobs.move.move_records",
    "jobs.options.conf",
    "jobs.options.job_options",
    "jobs.rebuild.rebuild",
    "jobs.recovery.losses",
    "jobs.recovery.restart_policy",
    "jobs.run_history",
    "jobs.runs.run_store",
    "jobs.runs.standbys",
    "jobs.runs.submissions",
    "jobs.runs.watchers",
    "jobs.status",
    "jobs.verification.job_verification",
    "jobs.verification.verification_records",
    "query_names",
    "storage.object_store",
}
# Modules of the driver that the supervisor imports to prove its death. None of them imports PySpark.
DRIVER_FOR_SUPERVISOR = {
    "ending.exit_reason",
    "members.driver_session",
    "members.housekeeping",
    "members.run_writer",
    "queries.query_registry",
    "script_environment",
}
# Folders of a layer -> those that they may import.
ROOMS: dict[str, dict[str, set[str]]] = {
    "checkpoints": {
        "spark": set(),
        "sinks": {"spark"},
        "sources": {"spark", "sinks"},
        "areas": {"spark", "sinks"},
        "verify": {"spark", "sinks", "areas"},
        "store": {"spark", "sinks", "areas", "verify"},
        "restore": {"spark", "sinks", "sources", "areas", "verify", "store"},
    },
}
# Foreign library -> modules that may import it at all.
OWNERS: dict[str, set[str]] = {
    "kazoo": {f"coordination/_kazoo{part}.py" for part in ("", "_acls", "_client", "_reads", "_transaction")},
    "boto3": {f"storage/{name}.py" for name in ("s3_store", "_s3_bucket", "_s3_responses")},
    "botocore": {f"storage/{name}.py" for name in ("s3_store", "_s3_bucket", "_s3_responses")},
    "confluent_kafka": {"checkpoints/sources/kafka_offsets.py"},
    "pyarrow": {"checkpoints/sinks/table_sinks.py"},
    "py4j": {"host/engines/standalone_arrival.py"},
    "urllib3": {"host/engines/_master_rest.py", "storage/_webhdfs.py"},
    "greenlet": set(),
}


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module; each is parsed once for all rules."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported_names(path: Path) -> tuple[str, ...]:
    """Return what a module imports."""
    names = list[str]()
    for node in ast.walk(tree_of(path)):
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
    if path == PACKAGE / "cli" / "app.py":
        allowed = allowed | {"hooks"}  # `airflow ha` reads Airflow's connection
    if path == PACKAGE / "__init__.py":
        allowed = allowed | {"api", "jobs"}  # for type checkers; loaded when a name is first used

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

    assert used - {"model", "ownership", "plan_model", room} <= ROOMS[layer][room]


def test_the_driver_reads_records_of_jobs_and_loads_no_action() -> None:
    """An action launches, cancels or restores: its imports reach an engine. The table of engines is data."""
    names = {".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)): path for path in modules()}
    reached, left = set[str](), [name for name in names if name.split(".")[1] == "driver"]
    while left:
        name = left.pop()
        reached.add(name)
        left += names.keys() & set(imported_names(names[name])) - reached

    reached.remove(TABLE)
    assert {layer_of(name) for name in reached} - SHARED == {"driver", "jobs", "checkpoints", "coordination", "storage"}


def test_views_are_made_from_snapshots_and_records_only() -> None:
    used = {
        ".".join(name.split(".")[1:])
        for path in (PACKAGE / "api" / "documents").glob("*.py")
        for name in imported_names(path)
        if layer_of(name) is not None and ".documents" not in name and _is_module(name)
    }

    assert used <= VIEWED


def _is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def test_the_supervisor_needs_little_of_the_driver() -> None:
    used = {
        name.removeprefix("airflow_provider_ha.driver.")
        for path in (PACKAGE / "host" / "supervisor").rglob("*.py")
        for name in imported_names(path)
        if name.startswith("airflow_provider_ha.driver.") and _is_module(name)
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
        for node in tree_of(path).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }

    assert [found for found in heads if found[1].split(".")[0] == "airflow"] == []


def test_only_the_folder_of_the_engines_names_an_engine() -> None:
    words = "|".join(ENTRIES)
    quoted = re.compile(rf"""^({words})$|["']({words})["']""")
    of_one = re.compile(rf"^_?({words})_?(engine|driver|arrival|process|options)$|^standalone$", re.IGNORECASE)

    def names_one(node: ast.AST) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and quoted.search(node.value) is not None
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return of_one.match(name) is not None

    found = {
        f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
        for path in modules()
        if ENGINES not in path.parents
        for node in ast.walk(tree_of(path))
        if names_one(node)
    }

    assert found == set()


def test_other_modules_reach_an_engine_by_its_protocol_its_table_and_its_arrival() -> None:
    seams = {"arrivals", "engine", "registry", "table"}
    used = {
        (str(path.relative_to(PACKAGE)), name.split(".")[3])
        for path in modules()
        if ENGINES not in path.parents
        for name in imported_names(path)
        if name.startswith("airflow_provider_ha.host.engines.")
    }

    assert {found for found in used if found[1] not in seams} == set()
    assert {module for module, seam in used if seam == "arrivals"} <= {
        f"host/supervisor/{name}.py" for name in ("arrival", "main")
    }


def test_each_engine_has_an_entry_a_starter_and_an_arrival() -> None:
    engines = Engines.of(HaConfig.build(zookeeper="zk:2181", storage_root="file:///s"))

    assert [engines.get(name).name for name in ENTRIES] == list(ENTRIES)
    assert all(arrival_of(DriverHandle(engine=name)) for name in ENTRIES)


def test_only_drivers_proofs_and_trainings_import_pyspark() -> None:
    users = {
        "/".join(path.relative_to(PACKAGE).parts[:2])
        for path in modules()
        if any(name.split(".")[0] == "pyspark" for name in imported_names(path))
    }

    assert {place for place in users if not place.startswith("driver/")} <= {"host/proof", "host/archives"}


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
    ("api/documents", {"airflow", "kazoo", "boto3", "botocore", "pyspark"}),
    ("host/engines", {"airflow", "kazoo", "pyspark"}),
    ("host/supervisor", {"airflow", "pyspark"}),
    ("jobs", {"airflow", "pyspark"}),
    ("fleet", {"airflow", "pyspark"}),
    ("api", {"airflow", "pyspark"}),
    ("cli", {"airflow", "pyspark"}),
    ("driver", {"airflow"}),
)
BESIDE_AIRFLOW = tuple(
    (layer, {"kazoo", "boto3", "botocore", "pyspark"})
    for layer in ("airflow_side", "operators", "sensors", "triggers", "hooks")
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


BEFORE_THE_LOCK = """
import sys
before = set(sys.modules)
import airflow_provider_ha.driver.main
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.slow
def test_a_driver_asks_for_the_lock_with_half_of_its_modules() -> None:
    """The job is down until a driver has the lock. The other half is loaded while ZooKeeper answers."""
    done = subprocess.run([sys.executable, "-c", BEFORE_THE_LOCK], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())

    assert len(loaded) <= 346, "half of the 692 that a driver of release 0.1 loaded before the lock"
    assert not loaded & {"pyspark", "py4j", "urllib3", "psutil", "xxhash", "airflow_provider_ha.driver.driver"}


def importable(layer: str) -> list[str]:
    return [
        "airflow_provider_ha." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((PACKAGE / layer).glob("*.py" if layer in {"airflow_side", "api"} else "**/*.py"))
        if not path.name.startswith(("airflow_", "__main__", "bootstrap"))
    ]
