"""Writes docs/reference/options.md from the spec of a job: ``python -m tests.docs.options_page``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_provider_ha.jobs.options.declaration import Option, options_of
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from tests.docs.json_page import markdown


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"
_HEAD = """\
# Options of a job

Options of `SparkHaSubmitOperator` and `spark-ha job submit`, then of `SparkHaRestoreOperator` and
`spark-ha job restore`. An option has one name: `restart_delay` of the operator is `--restart-delay` of the command. An
operator takes options with an entry in the second column in the mapping of that name: `ha={"restart_delay": 5}`. A
value that is not a template is checked when Airflow parses the DAG, a template when the task runs. An error names all
options that cannot be used. Durations are seconds; an operator also takes a `timedelta`. `None` and a template that
renders to nothing mean the default.

`python -m tests.docs.options_page` generates this page from `JobSpec` and `RestoreRequest`. A test checks that it is
current.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(JobSpec, RestoreRequest), encoding="utf-8")


def page(spec: type[Any], restore: type[Any]) -> str:
    """Return the page for the options of a submission and of a restore."""
    groups: dict[str, list[Option]] = {}
    for each in options_of(spec).values():
        groups.setdefault(each.shown.get("group", "The job"), []).append(each)
    groups["A restore"] = list(options_of(restore).values())
    return "\n".join([_HEAD, *(_table(title, rows) for title, rows in groups.items())])


def _table(title: str, rows: list[Option]) -> str:
    lines = [f"## {title}\n", "| Option | In | Default | Meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{each.name}` | {_holder(each)} | {_default(each)} | {markdown(each.field.description or '')} |"
        for each in rows
    ]
    return "\n".join(lines) + "\n"


def _holder(option: Option) -> str:
    return f"`{option.holder}`" if option.holder else ""


def _default(option: Option) -> str:
    if option.field.is_required():
        return "required"
    value = option.default
    if value is None or (isinstance(value, (tuple, Mapping)) and not value):
        return ""
    return f"`{list(value) if isinstance(value, tuple) else value!r}`"


if __name__ == "__main__":
    main()
