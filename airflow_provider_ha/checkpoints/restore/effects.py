"""Which component carries out which effect of a restore plan, from the request to the end of the run.

The plan decides, these components follow it. Each effect names the fields of the plan that it follows from, and its
carrier as ``module:name`` below ``airflow_provider_ha``. A field without an effect is only shown to people. A test
holds the table complete: every field is listed, every carrier exists and reads the fields that it is listed with, and
no module of the driver reads a plan without being listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Moment(str, Enum):
    """When an effect happens, in this order."""

    REQUEST = "the request, before there is a run"
    DIRECTORY = "the driver makes the working directory"
    START = "the script starts a query"
    FIRST_CHECKPOINT = "the first checkpoint of the run"
    END = "the script has ended well"


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a plan.

    :param what: The effect, as a sentence.
    :param moment: When it happens.
    :param carrier: Component that carries it out, ``module:name``.
    :param plan: Fields of ``RestorePlan`` that it follows from.
    :param query: Fields of ``QueryPlan`` that it follows from.
    """

    what: str
    moment: Moment
    carrier: str
    plan: tuple[str, ...] = ()
    query: tuple[str, ...] = ()


EFFECTS = (
    Effect(
        "A plan whose verdicts are not accepted, or with unknown facts, makes no run.",
        Moment.REQUEST,
        "control.restore.restore:refusal_of",
        plan=("verdict", "unknown"),
    ),
    Effect(
        "A verdict is accepted by its own name only.",
        Moment.REQUEST,
        "checkpoints.restore.judgement:not_accepted",
        plan=("verdict", "findings"),
    ),
    Effect(
        "The run records what it starts from.",
        Moment.REQUEST,
        "control.restore.restore:restored_start",
        plan=("source", "source_job", "source_id", "claim_mode"),
    ),
    Effect(
        "The directory of the cut is found, and is one of its job.",
        Moment.DIRECTORY,
        "driver.start_point:_chosen",
        plan=("directory", "source_job", "adopted"),
    ),
    Effect(
        "Outputs that the job goes on with are compared; those of another job are not.",
        Moment.DIRECTORY,
        "driver.start_point:prepare_start",
        plan=("same_output", "adopted"),
    ),
    Effect(
        "The restore is refused when an output has changed since.",
        Moment.DIRECTORY,
        "driver.start_point:check_facts",
        plan=("queries", "adopted"),
        query=("sink", "set_aside"),
    ),
    Effect(
        "The restore is refused when an adopted checkpoint has changed since.",
        Moment.DIRECTORY,
        "driver.start_point:check_adopted",
        plan=("adopted",),
    ),
    Effect(
        "A fallback follows no plan but one that is SAFE.",
        Moment.DIRECTORY,
        "driver.fallback:FallbackPlanner._check",
        plan=("verdict", "unknown"),
    ),
    Effect(
        "A fallback is written down with the batches that are executed again.",
        Moment.DIRECTORY,
        "driver.fallback:FallbackPlanner._plan",
        plan=("queries",),
        query=("batch", "replay"),
    ),
    Effect(
        "The directory of the cut of a fallback is found, and is one of its job.",
        Moment.DIRECTORY,
        "driver.fallback_start:start_from_fallback",
        plan=("directory", "source_job"),
    ),
    Effect(
        "Each query is forked at its batch, with the recorded input of its replay and a fresh id where it gets one; "
        "what stays the user's is copied; entries of file sinks are set aside.",
        Moment.DIRECTORY,
        "checkpoints.restore.prepare:prepare_restore",
        plan=("queries", "owner", "adopted"),
        query=("batch", "replay", "set_aside", "sink", "query_id"),
    ),
    Effect(
        "A query that the script has not started yet lies at rest with the sink of the plan.",
        Moment.DIRECTORY,
        "driver.resting:_resting",
        plan=("same_output",),
        query=("sink", "sink_gone"),
    ),
    Effect(
        "A query whose checkpoint was not named is refused.",
        Moment.START,
        "driver.origin:Origin.check_adopted",
        plan=("adopted",),
    ),
    Effect(
        "The log of a new output is seeded from the log that was kept with the cut, or from the sink's own.",
        Moment.START,
        "driver.origin:Origin.sink_log",
        plan=("adopted",),
        query=("sink",),
    ),
    Effect(
        "A new output, or one that is gone, gets a log that goes on after the cut.",
        Moment.START,
        "driver.query_start:QueryStarter._seed",
        query=("batch", "sink", "sink_gone"),
    ),
    Effect(
        "Recorded batches are executed again with their own boundaries.",
        Moment.START,
        "driver.origin:Origin.recorded",
        query=("replay",),
    ),
    Effect(
        "Of these, what a fenced function has finished is executed with its output discarded, unless it is repeatable.",
        Moment.START,
        "checkpoints.model:QueryPlan",
        query=("given", "sink", "batch", "replay"),
    ),
    Effect(
        "Batches come again to a function that the plan calls repeatable only where it is declared so now.",
        Moment.START,
        "driver.query_start:QueryStarter._finished",
        query=("sink", "batch", "replay"),
    ),
    Effect(
        "A table is not given again what it has under the id that the query had before.",
        Moment.START,
        "driver.query_start:QueryStarter._in_table",
        query=("batch", "replay", "sink", "query_id"),
    ),
    Effect(
        "The job becomes the owner of what it was restored from.",
        Moment.FIRST_CHECKPOINT,
        "driver.publisher:Publisher._claim",
        plan=("claim_mode",),
    ),
    Effect(
        "The savepoint, or the adopted directories, are claimed in the transaction of that checkpoint.",
        Moment.FIRST_CHECKPOINT,
        "checkpoints.retention.claims:Claims.ops",
        plan=("claim_mode", "adopted", "source", "source_id"),
    ),
    Effect(
        "A query of the plan that the script never started is dropped.",
        Moment.END,
        "driver.ending:Ending._finish",
        plan=("queries",),
    ),
)

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
"""Fields of both models that nothing follows from: they are shown, and recorded."""
