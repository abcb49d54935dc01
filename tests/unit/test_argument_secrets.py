"""Which arguments of a script look like secrets, and how they are shown."""

from __future__ import annotations

import pytest

from airflow_provider_ha.argument_secrets import argument_secrets, hidden, secret_names


@pytest.mark.parametrize(
    ("arguments", "shown", "names", "secrets"),
    [
        (["--password=hunter2"], ["--password=***"], ["--password"], {"hunter2"}),
        (["--password=a=b c\nd"], ["--password=***"], ["--password"], {"a=b c\nd"}),
        (["--password", "hunter2", "in"], ["--password", "***", "in"], ["--password"], {"hunter2"}),
        (["--password", "-hunter2"], ["--password", "***"], ["--password"], {"-hunter2"}),
        (["db.api-key=hunter2"], ["db.api-key=***"], ["db.api-key"], {"hunter2"}),
        (["--conf", "spark.x.secret=hunter2"], ["--conf", "spark.x.secret=***"], ["spark.x.secret"], {"hunter2"}),
        (["a", "s3://u:hunter2@h/p"], ["a", "s3://u:***@h/p"], ["argument 2"], {"s3://u:hunter2@h/p"}),
        (["--url=s3://u:pw@h/p"], ["--url=s3://u:***@h/p"], ["argument 1"], {"--url=s3://u:pw@h/p"}),
        (["--token", "--token", "hunter2"], ["--token", "--token", "***"], ["--token"], {"hunter2"}),
    ],
)
def test_a_secret_is_hidden_and_named(
    arguments: list[str], shown: list[str], names: list[str], secrets: set[str]
) -> None:
    assert list(hidden(arguments)) == shown
    assert secret_names(arguments) == names
    assert argument_secrets(arguments) == secrets


@pytest.mark.parametrize(
    "arguments",
    [
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
