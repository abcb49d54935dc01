"""Rules for the source: writes to ZooKeeper, the release, names of classes, and modules that run as programs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import airflow_provider_ha
from airflow_provider_ha import __version__


PACKAGE = Path(airflow_provider_ha.__file__).parent
FACADE = {f"coordination/_kazoo{part}.py" for part in ("", "_acls", "_client", "_reads", "_transaction")}
UNGUARDED = {
    "fleet/observations.py": "a note for people; a version guards its removal",
    "jobs/cluster_roots.py": "the cluster's own node, once, by compare-and-set; no leader writes it",
    "jobs/runs/watchers.py": "an Airflow task's own node, by compare-and-set",
    "jobs/job_records.py": "makes nodes that no other process may make under that name: runs, submissions, recoveries; "
    "a driver's supervisor completes its own one by compare-and-set",
    "jobs/runs/standbys.py": "ephemeral nodes of standby drivers, each under a unique name; the version of their "
    "parent limits their number",
    "fleet/notify/session.py": "ephemeral nodes of waits, each under a unique name; only people read them",
    "jobs/removal/cleanup.py": "writes nothing: each of its transactions only checks the job's epoch",
    "jobs/rebuild/rebuild.py": "a job without a leader, whose epoch it raises first and checks in each transaction",
}
# What only the leader writes (``JobPaths``).
OWNED_BY_THE_LEADER = {"generation", "status", "heartbeat"}
WRITES = {"Create", "SetData", "Delete"}


@cache
def trees() -> dict[str, ast.Module]:
    """Return path -> syntax tree of every module, parsed once for all tests."""
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def modules(folder: str = "") -> Iterator[tuple[str, ast.Module]]:
    yield from (found for found in trees().items() if not folder or found[0].startswith(f"{folder}/"))


def raw_commits(tree: ast.Module) -> list[int]:
    """Return the lines that name ``commit`` of a coordinator, called or handed on."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "commit" and _last_name(node.value).endswith("coordinator")
    ]


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_only_the_facade_imports_kazoo() -> None:
    users = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kazoo")
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "kazoo" for alias in node.names))
    }

    assert users == FACADE


def test_only_one_transaction_of_kazoos_is_made_and_only_in_the_facade() -> None:
    """Nodes are changed by our own operations; kazoo's ``create``, ``set`` and recipes are never called."""
    makers = {
        name
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("transaction", "create_async", "set_async", "delete_async")
    }

    assert makers <= {"coordination/_kazoo_transaction.py"}


def test_whoever_writes_without_leading_is_on_the_list() -> None:
    """Fails when a module outside ``coordination/`` commits on a session: it must lead, or say here why it need not."""
    users = {name for name, tree in modules() if raw_commits(tree) and not name.startswith("coordination/")}

    assert users <= set(UNGUARDED)


@pytest.mark.parametrize("name", sorted(UNGUARDED))
def test_whoever_writes_without_leading_writes_nothing_of_the_leaders(name: str) -> None:
    written = {
        node.args[0].attr
        for node in ast.walk(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in WRITES
        and node.args
        and isinstance(node.args[0], ast.Attribute)
    }

    assert written & OWNED_BY_THE_LEADER == set()


@pytest.mark.parametrize("folder", ["driver", "proof", "supervisor"])
def test_the_driver_never_writes_without_leading(folder: str) -> None:
    assert {name: raw_commits(tree) for name, tree in modules(folder) if raw_commits(tree)} == {}


ROOT = Path(__file__).parents[2]
WORDS_IN_TWO_MINUTES = 480  # at 240 a minute


def releases() -> dict[str, str]:
    """Release -> its section, in the order of the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {head: body for head, body in found if re.match(r"\[\d", head)}


def test_the_newest_release_of_the_changelog_is_this_one() -> None:
    head = next(iter(releases()))

    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d{{2}}-\d{{2}}", head)


def test_a_release_is_read_in_two_minutes() -> None:
    assert {
        head: len(body.split()) for head, body in releases().items() if len(body.split()) > WORDS_IN_TWO_MINUTES
    } == {}


def test_the_number_of_the_release_is_in_one_place() -> None:
    files = [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "pyproject.toml", *(ROOT / "docs").rglob("*.md")]
    package = [path for path in (ROOT / "airflow_provider_ha").rglob("*.py") if path.name != "_version.py"]

    named = [
        path
        for path in (*files, *package)
        if __version__ in re.findall(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", path.read_text(encoding="utf-8"))
    ]

    assert named == []


def starts(tree: ast.Module) -> list[int]:
    """Return where the module starts itself, counted from its end."""
    tests = [ast.unparse(node.test) if isinstance(node, ast.If) else "" for node in tree.body]
    return [len(tests) - number for number, test in enumerate(tests) if test.startswith("__name__ ==")]


PROGRAMS = {
    path: found for path in sorted(PACKAGE.rglob("*.py")) if (found := starts(ast.parse(path.read_text("utf-8"))))
}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_defined_after_the_start_of_a_program(path: Path) -> None:
    assert PROGRAMS[path] == [1]


def test_the_name_of_a_public_class_is_unique() -> None:
    places: dict[str, list[str]] = {}
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
