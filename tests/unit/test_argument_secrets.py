"""Which arguments of a script look like secrets, and how they are shown."""

from __future__ import annotations

import pytest

from airflow_provider_ha.argument_secrets import argument_secrets, hidden, secret_names
from airflow_provider_ha.redaction import redact


AZURE = "fs.azure.account.key.data.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("arguments", "shown", "names", "secrets"),
    [
        (["--password=hunter2"], ["--password=***"], ["--password"], {"hunter2"}),
        (["--password=a=b c\nd"], ["--password=***"], ["--password"], {"a=b c\nd"}),
        (["--password", "hunter2", "in"], ["--password", "***", "in"], ["--password"], {"hunter2"}),
        (["--password", "-hunter2"], ["--password", "***"], ["--password"], {"-hunter2"}),
        (["db.api-key=hunter2"], ["db.api-key=***"], ["db.api-key"], {"hunter2"}),
        (["--conf", "spark.x.secret=hunter2"], ["--conf", "spark.x.secret=***"], ["spark.x.secret"], {"hunter2"}),
        (["a", "s3://u:hunter2@h/p"], ["a", "s3://u:***@h/p"], ["argument 2"], {"hunter2"}),
        (["--url=s3://u:pw@h/p"], ["--url=s3://u:***@h/p"], ["argument 1"], set()),
        (["--token", "--token", "hunter2"], ["--token", "--token", "***"], ["--token"], {"hunter2"}),
        (["--header", "X-Api-Key: hunter2"], ["--header", "X-Api-Key: ***"], ["X-Api-Key"], {"hunter2"}),
        (["--header=X-Api-Key: hunter2"], ["--header=X-Api-Key: ***"], ["X-Api-Key"], {"hunter2"}),
        (["Authorization: Basic hunter2"], ["Authorization: ***"], ["Authorization"], {"Basic hunter2"}),
        (["--dbToken", "hunter2"], ["--dbToken", "***"], ["--dbToken"], {"hunter2"}),
        (["PGPASSWORD=hunter2"], ["PGPASSWORD=***"], ["PGPASSWORD"], {"hunter2"}),
        (["--sas-token", "hunter2"], ["--sas-token", "***"], ["--sas-token"], {"hunter2"}),
        ([f"{AZURE}=hunter2"], [f"{AZURE}=***"], [AZURE], {"hunter2"}),
        (["--token", "1234"], ["--token", "***"], ["--token"], set()),
        (["--password=abc"], ["--password=***"], ["--password"], set()),
        (["--pwd=12,345.6"], ["--pwd=***"], ["--pwd"], set()),
    ],
)
def test_a_secret_is_hidden_and_named(
    arguments: list[str], shown: list[str], names: list[str], secrets: set[str]
) -> None:
    assert list(hidden(arguments)) == shown
    assert secret_names(arguments) == names
    assert argument_secrets(arguments) == secrets


@pytest.mark.parametrize(
    ("argument", "shown", "parts"),
    [
        ("jdbc:postgresql://u:hun%2Fter@h/db", "jdbc:postgresql://u:***@h/db", {"hun%2Fter", "hun/ter"}),
        ("Server=h;Password=hunter2;Token='hunter3'", "Server=h;Password=***;Token=***", {"hunter2", "hunter3"}),
        ('{"token_topic": "orders", "token": "hunter2"}', '{"token_topic": ***, "token": ***}', {"hunter2"}),
        ("--token-topic orders --token hunter2", "--token-topic *** --token ***", {"hunter2"}),
        ("x eyJ bearer hunter2-hunter2", "x eyJ bearer ***", {"hunter2-hunter2"}),
    ],
)
def test_a_secret_inside_an_argument_is_hidden_where_it_stands_alone(
    argument: str, shown: str, parts: set[str]
) -> None:
    argument, shown = f"--to={argument}", f"--to={shown}"

    assert hidden([argument]) == (shown,)
    assert argument_secrets([argument]) == parts


def test_an_error_that_repeats_an_argument_keeps_all_but_its_secret() -> None:
    url = "jdbc:postgresql://db:5432/prod?user=app&password=hunter2-of-the-url"

    shown = redact(f"cannot connect to {url}: refused for hunter2-of-the-url", argument_secrets([url]))

    assert shown == "cannot connect to jdbc:postgresql://db:5432/prod?user=app&password=*** refused for ***"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-tokens", "1", "--token-topic", "orders", "--tokenizer", "bert"],
        ["--max-tokens=1000", "--token-topic=orders", "--tokenizer=bert-base", "secretary=anna"],
        ["--token", "null", "--password=none"],
        ["--since", "now", "s3a://bucket/out", "key=value"],
        ["--token-file=/run/token", "--password-file", "/run/password"],
        ["--with-token=true", "--token-column", "user"],
        ["--token", "--since", "now"],
        ["--password="],
        ["--token"],
        [],
    ],
)
def test_what_is_no_secret_stays(arguments: list[str]) -> None:
    assert list(hidden(arguments)) == arguments
    assert (secret_names(arguments), argument_secrets(arguments)) == ([], set())
