"""Ways on that the command prints are options of the command, and records keep the words of the operators."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from typer.main import get_command

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.console import _OPTIONS, option_words
from airflow_provider_ha.driver.queries.script_paths import from_output, from_own_location, parameters


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("or with start_from='fresh' to start", "or with --start-from fresh to start"),
        (
            'if_lost="recover" or start_from="fresh"',
            "--if-lost recover or --start-from fresh",
        ),
        ("with accept_verdicts=['SAFE', 'DUPLICATES_POSSIBLE'] when", "with --accept-verdict DUPLICATES_POSSIBLE when"),
        ("accept_verdicts=['SAFE']", "accept_verdicts=['SAFE']"),
        (
            "accept_unverified=q1,q2, accept_verdicts=LOSS_POSSIBLE; so",
            "--accept-unverified q1 --accept-unverified q2 --accept-verdict LOSS_POSSIBLE; so",
        ),
        ("submit the job with allow_new_queries=True", "submit the job with --allow-new-queries"),
        ("start_from=name in the address", "start_from=name in the address"),
        ("cut off: start_from={'q': '/data/che", "cut off: start_from={'q': '/data/che"),
        ("restart_from='fresh'", "restart_from='fresh'"),
        ("start_from='\\x'", "start_from='\\x'"),
        ("nothing to say", "nothing to say"),
    ],
)
def test_parameters_of_the_operators_are_options_of_the_command(text: str, shown: str) -> None:
    assert option_words(text) == shown


def test_directories_and_sinks_can_be_pasted_into_a_shell() -> None:
    told = option_words(f"Submit with {parameters({'a': '/c', 'b': '/d'}, {'a': '/o u', 'b': None})}, and wait")

    assert shlex.split(told) == [
        *("Submit", "with", "--start-from", "a=/c", "--start-from", "b=/d", "--sink", "a=/o u,", "and", "wait")
    ]


@pytest.mark.parametrize(
    "next_step",
    [
        from_own_location("q", "/data/own/q", "/data/out", others={"r": "/data/own/r"}),
        from_own_location("q", "relative", None),
        from_output("q", "/data/out"),
    ],
)
def test_what_a_refused_run_offers_has_no_python_left(next_step: str) -> None:
    told = option_words(next_step)

    assert "--start-from" in told
    assert not [name for name in _OPTIONS if f"{name}=" in told]


def test_each_option_is_one_of_a_command_that_starts_a_run() -> None:
    commands: Any = get_command(app)
    options = {
        word
        for command in (commands.commands["job"].commands["submit"], commands.commands["restore"])
        for parameter in command.params
        for word in parameter.opts
    }

    assert set(_OPTIONS.values()) <= options


def test_fields_of_an_old_record_are_printed_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_fields({"state": "FAILED", "reason": "Submit with start_from='fresh'"})
    console.print_table(["WHY"], [["allow_new_queries=True"]], empty="")

    assert "Submit with --start-from fresh" in (said := capsys.readouterr().out)
    assert "--allow-new-queries" in said
