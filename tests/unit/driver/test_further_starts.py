"""Whether a script that waits in a drill may still come to a start: by its text."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from airflow_provider_ha.host.proof.script_start import starts_after


def goes_on(text: str) -> bool:
    """Whether a start may follow the line with ``HERE``, in the function that holds it."""
    text = dedent(text)
    lines = text.splitlines()
    here = next(number for number, line in enumerate(lines, 1) if "HERE" in line)
    module = ast.parse(text)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    holding = [node.lineno for node in functions if node.lineno <= here <= (node.end_lineno or 0)]
    return starts_after(module, here, max(holding, default=0))


@pytest.mark.parametrize(
    "text",
    [
        "a.start().awaitTermination()  # HERE\nmark_done()",
        "query = a.start()\nb.toTable('t')\nquery.awaitTermination()  # HERE\nremove_staging()",
        "start = now()\na.start().awaitTermination()  # HERE\nprint(now() - start)",
        "def run():\n    a.start().awaitTermination()  # HERE\n    mark_done()\nrun()",
        "def run():\n    a.start()\nrun()\nwait()  # HERE\nclean()",
        "if one:\n    a.awaitTermination()  # HERE\n    mark_done()\nelse:\n    b.start()\nend()",
        "try:\n    a.awaitTermination()  # HERE\nexcept OSError:\n    b.start()\nend()",
    ],
)
def test_a_script_whose_last_start_is_behind_it_ends_where_it_waits(text: str) -> None:
    assert not goes_on(text)


@pytest.mark.parametrize(
    "text",
    [
        "a.start().awaitTermination()  # HERE\nb.start()",
        "a.awaitTermination()  # HERE\nb.toTable('t')",
        "def run(): b.start()\na.awaitTermination()  # HERE\nrun()",
        "def inner(): b.start()\ndef run(): inner()\na.awaitTermination()  # HERE\nrun()",
        "def run(): b.start()\na.awaitTermination()  # HERE\npool.map(run, names)",
        "class Job:\n    def run(self): b.start()\na.awaitTermination()  # HERE\nJob().run()",
        "if one:\n    a.awaitTermination()  # HERE\nb.start()",
        "try:\n    a.awaitTermination()  # HERE\nfinally:\n    b.start()",
        "for each in all:\n    query = each.start()\n    query.awaitTermination()  # HERE",
        "def run():\n    a.awaitTermination()  # HERE\n    b.start()\nrun()",
    ],
)
def test_a_script_goes_on_while_a_start_may_follow(text: str) -> None:
    assert goes_on(text)
