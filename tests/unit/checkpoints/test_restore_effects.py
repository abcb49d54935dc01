"""The table of a plan's effects is complete, and names components that exist and read the plan."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from operator import attrgetter
from pathlib import Path

import pytest

import airflow_provider_ha
from airflow_provider_ha.checkpoints.model import QueryPlan, RestorePlan
from airflow_provider_ha.checkpoints.restore.effects import EFFECTS, SHOWN_ONLY, Effect


PACKAGE = Path(airflow_provider_ha.__file__).parent
PLAN_FIELDS = set(RestorePlan.model_fields)
QUERY_FIELDS = set(QueryPlan.model_fields)
# Hands the plan on as a whole: to its carriers, or into a log line; the last one names its cut in an error.
HANDS_ON = {"driver/assembly.py", "driver/main.py", "driver/misfit.py"}


def carrier_of(effect: Effect) -> object:
    module, _, name = effect.carrier.partition(":")
    return attrgetter(name)(importlib.import_module(f"{airflow_provider_ha.__name__}.{module}"))


def attributes(source: str) -> set[str]:
    read = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    return read | {"queries"} if "plans" in read else read  # `Origin.plans` is `plan.queries`


def test_every_field_of_a_plan_has_an_effect_or_is_only_shown() -> None:
    carried = {field for effect in EFFECTS for field in (*effect.plan, *effect.query)}

    assert carried | SHOWN_ONLY == PLAN_FIELDS | QUERY_FIELDS
    assert not carried & SHOWN_ONLY


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: str(effect.carrier))
def test_the_carrier_of_an_effect_exists_and_reads_its_fields(effect: Effect) -> None:
    carrier = carrier_of(effect)

    assert callable(carrier)
    read = attributes(textwrap.dedent(inspect.getsource(carrier)))

    assert {*effect.plan, *effect.query} <= read
    assert set(effect.plan) <= PLAN_FIELDS
    assert set(effect.query) <= QUERY_FIELDS


def test_no_module_of_the_driver_reads_a_plan_without_being_a_carrier() -> None:
    carriers = {effect.carrier.partition(":")[0].replace(".", "/") + ".py" for effect in EFFECTS}
    readers = {
        str(path.relative_to(PACKAGE))
        for path in sorted((PACKAGE / "driver").rglob("*.py"))
        if {"plan", "plans"} & attributes(path.read_text(encoding="utf-8"))
    }

    assert readers - HANDS_ON <= carriers


def test_one_function_makes_plans_and_only_a_move_gives_one_another_place() -> None:
    """A move executes the plan of the old place from a copy: what it says of batches and outputs stays."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items() if "RestorePlan" in text or "model_copy" in text}
    calls = [(path, node.func) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    makers = [path.name for path, called in calls if isinstance(called, ast.Name) and called.id == "RestorePlan"]
    changed = [
        path.name
        for path, called in calls
        if isinstance(called, ast.Attribute)
        and called.attr == "model_copy"
        and ast.unparse(called.value).endswith(("plan", ")"))
        and "plan" in ast.unparse(called.value)
    ]

    assert (makers, changed) == (["plan.py"], ["arrival.py"])
