"""Each effect of a restore plan and the component that carries it out, from the request to the end of the run.

The plan decides; these components follow it. The table is complete: it lists every field of a plan, every carrier
exists and reads its fields, and no module of the driver reads a plan without being listed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pytest

import airflow_provider_ha
from airflow_provider_ha.checkpoints.plan_model import QueryPlan, RestorePlan


PACKAGE = Path(airflow_provider_ha.__file__).parent
PLAN_FIELDS = set(RestorePlan.model_fields)
QUERY_FIELDS = set(QueryPlan.model_fields)
# Hands the plan on as a whole: to its carriers, or into a log line; the last one names its cut in an error.
HANDS_ON = {"driver/assembly.py", "driver/driver.py", "driver/queries/query_fit.py"}


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a plan.

    :param carrier: ``module:name`` below ``airflow_provider_ha``.
    :param plan: Fields of ``RestorePlan`` that it follows from.
    :param query: Fields of ``QueryPlan`` that it follows from.
    """

    what: str
    carrier: str
    plan: tuple[str, ...] = ()
    query: tuple[str, ...] = ()


EFFECTS = (
    # The request, before there is a run.
    Effect(
        "A plan whose verdicts are not accepted, or with unknown facts, makes no run.",
        "jobs.restore.job_restore:refusal_of",
        plan=("verdict", "unknown"),
    ),
    Effect(
        "A verdict is accepted by its own name only.",
        "checkpoints.restore.plan:not_accepted",
        plan=("verdict", "findings"),
    ),
    Effect(
        "The run records what it starts from.",
        "jobs.restore.job_restore:restored_start",
        plan=("source", "source_job", "source_id", "claim_mode"),
    ),
    # The driver makes the working directory.
    Effect(
        "The directory of the cut is found, and is one of its job.",
        "driver.checkpointing.start_point:_chosen",
        plan=("directory", "source_job", "adopted"),
    ),
    Effect(
        "Outputs that the job goes on with are compared; those of another job are not.",
        "driver.checkpointing.start_point:prepare_start",
        plan=("same_output", "adopted"),
    ),
    Effect(
        "The restore is refused when an output has changed since.",
        "driver.checkpointing.start_point:check_facts",
        plan=("queries", "adopted"),
        query=("sink", "set_aside"),
    ),
    Effect(
        "The restore is refused when an adopted checkpoint has changed since.",
        "driver.checkpointing.start_point:check_adopted",
        plan=("adopted",),
    ),
    Effect(
        "A fallback follows no plan but one that is SAFE.",
        "driver.checkpointing.fallback:FallbackPlanner._check",
        plan=("verdict", "unknown"),
    ),
    Effect(
        "A fallback is written down with the batches that are executed again.",
        "driver.checkpointing.fallback:FallbackPlanner._plan",
        plan=("queries",),
        query=("batch", "replay"),
    ),
    Effect(
        "The directory of the cut of a fallback is found, and is one of its job.",
        "driver.checkpointing.start_point:start_from_fallback",
        plan=("directory", "source_job"),
    ),
    Effect(
        "Each query is forked at its batch, with the recorded input of its replay and a fresh id where it gets one; "
        "what stays the user's is copied; entries of file sinks are set aside.",
        "checkpoints.restore.plan_execution:prepare_restore",
        plan=("queries", "owner", "adopted"),
        query=("batch", "replay", "set_aside", "sink", "query_id"),
    ),
    Effect(
        "A query that the script has not started yet lies at rest with the sink of the plan.",
        "driver.queries.resting_queries:_resting",
        plan=("same_output",),
        query=("sink", "sink_gone"),
    ),
    # The script starts a query.
    Effect(
        "A query whose checkpoint was not named is refused.",
        "driver.checkpointing.origin:Origin.check_adopted",
        plan=("adopted",),
    ),
    Effect(
        "The log of a new output is seeded from the log that was kept with the cut, or from the sink's own.",
        "driver.checkpointing.origin:Origin.sink_log",
        plan=("adopted",),
        query=("sink",),
    ),
    Effect(
        "A new output, or one that is gone, gets a log that goes on after the cut.",
        "driver.queries.query_start:QueryStarter._seed",
        query=("batch", "sink", "sink_gone"),
    ),
    Effect(
        "Recorded batches are executed again with their own boundaries.",
        "driver.checkpointing.origin:Origin.recorded",
        query=("replay",),
    ),
    Effect(
        "Of these, what a fenced function has finished is executed with its output discarded, unless it is repeatable.",
        "checkpoints.plan_model:QueryPlan",
        query=("given", "sink", "batch", "replay"),
    ),
    Effect(
        "Batches come again to a function that the plan calls repeatable only where it is declared so now.",
        "driver.queries.query_start:QueryStarter._finished",
        query=("sink", "batch", "replay"),
    ),
    Effect(
        "A table is not given again what it has under the id that the query had before.",
        "driver.queries.query_start:QueryStarter._in_table",
        query=("batch", "replay", "sink", "query_id"),
    ),
    # The first checkpoint of the run.
    Effect(
        "The job becomes the owner of what it was restored from.",
        "driver.checkpointing.publisher:Publisher._claim",
        plan=("claim_mode",),
    ),
    Effect(
        "The savepoint, or the adopted directories, are claimed in the transaction of that checkpoint.",
        "checkpoints.store.claims:Claims.ops",
        plan=("claim_mode", "adopted", "source", "source_id"),
    ),
    # The script has ended well.
    Effect(
        "A query of the plan that the script never started is dropped.",
        "driver.ending.run_end:DriverEnd._finish",
        plan=("queries",),
    ),
)

# Fields of both models without an effect: shown and recorded only.
SHOWN_ONLY = frozenset(
    {
        "job_id",
        "reasons",
        "candidates",
        "age_seconds",
        "created_at",
        "input_files",
        "inputs",
    }
)


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

    assert (makers, changed) == (["plan.py"], ["move_arrival.py"])
