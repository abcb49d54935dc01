"""Nothing writes to ZooKeeper by another way than ``coordination/``, and who is not the leader only where it says why.

Read from the source. A leader writes by ``Leadership.commit``, which guards every transaction; what commits on the
session itself is not guarded, so each such place is listed here with the reason why no process can be harmed by it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import airflow_provider_ha


PACKAGE = Path(airflow_provider_ha.__file__).parent
FACADE = {f"coordination/_kazoo{part}.py" for part in ("", "_acls", "_client", "_reads", "_transaction")}
UNGUARDED = {
    "fleet/observations.py": "a note for people; a version guards its removal",
    "jobs/cluster_roots.py": "the cluster's own node, once, by compare-and-set; no leader writes it",
    "jobs/runs/watchers.py": "an Airflow task's own node, by compare-and-set",
    "jobs/job_records.py": "makes nodes that no other process may make under that name: runs, submissions, recoveries; "
    "a driver's supervisor completes its own one by compare-and-set",
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
