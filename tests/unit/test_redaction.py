"""Secrets: hidden in errors and in arguments."""

from __future__ import annotations

import time

import pytest

from airflow_provider_ha.argument_secrets import argument_secrets, hidden, secret_names
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.redaction import PublicText, redact, secret_values, secrets_of


SECRET = "hunter2-Xy%7"


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://db:5432/prod?user=app&password={}&ssl=true",
        "jdbc:sqlserver://db;user=sa;password={};encrypt=true",
        "jdbc:sqlserver://db;user=sa;Password={{{}}};encrypt=true",
        "jdbc:oracle:thin:scott/{}@//db:1521/prod",
        "postgres://app:{}@db:5432/prod",
        "https://:{}@host/path",
        "options: {{'dbtable': 't', 'password': '{}'}}",
        'body {{"client_secret": "{}", "x": 1}}',
        "spark.hadoop.fs.s3a.secret.key={} is wrong",
        "AWS_SECRET_ACCESS_KEY={}",
        "https://x.blob.core.windows.net/c?sv=2024&sig={}&se=2026",
        "https://bucket.s3.amazonaws.com/k?X-Amz-Credential=a&X-Amz-Signature={}",
        "AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
        "fs.azure.account.key.acc.dfs.core.windows.net = {}",
        "Authorization: Bearer {}",
        "authorization: AWS4-HMAC-SHA256 Credential=x, Signature={}",
        "called with ['--db-password', '{}', '--since', 'now']",
        "main.py --password {} --since now",
        "postgres://app:a/{}@db:5432/prod is down",
        "amqp://app:{}?b#c@mq:5672/vhost",
        "mongodb+srv://app:{}/x@cluster0.example.net/?w=majority",
        "postgres://app:80/{}@db:5432/prod",
        "kafka.basic.auth.user.info=registry:{}",
        "options: {{'schema.registry.basic.auth.user.info': 'registry:{}'}}",
        "basic.auth.credentials.source=USER_INFO basic.auth.user.info = registry:{}",
        "BASIC_AUTH_USER_INFO=registry:{}",
        'basic_auth: "basic_auth": "app:{}"',
        "pwd: {}",
        "-Djavax.net.ssl.keyStorePassword={}",
        "-----BEGIN RSA PRIVATE KEY-----\nMII{}\nAB\n-----END RSA PRIVATE KEY-----",
        "oauth token={}",
        'passphrase = "{}"',
    ],
)
def test_values_at_places_of_secrets_are_hidden(text: str) -> None:
    said = redact(text.format(SECRET))

    assert SECRET not in said
    assert "***" in said


@pytest.mark.parametrize(
    "text",
    [
        "query 'hourly' failed: [TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found. SQLSTATE: 42P01",
        "the script writes to the relative path 'out'; here that is /data/jobs/x/submissions/1-1/app/files/out",
        "java.io.FileNotFoundException: file:/data/in/2026-11-22T10:00:00/part-0.json does not exist",
        "hdfs://namenode:8020/data/part@v1 is not there",
        "https://host:8443?mail=someone@example.com answers 404",
        "the source 'https://host:8443/a' answers, and a@example.com was told",
        "ZooKeeper at zk1:2181,zk2:2181 did not answer",
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'from': unexpected token 'from'",
        "the checkpoint 1b4f0e9851971998e732078544c96b36c3d01ced is bad",
        "connection refused: localhost/127.0.0.1:5432, user app",
        "signal 9, exit code -9",
    ],
)
def test_what_a_reader_needs_stays(text: str) -> None:
    assert redact(text) == text


def test_the_rest_of_a_url_stays() -> None:
    assert redact("postgres://app:pw12345@db:5432/prod is down") == "postgres://app:***@db:5432/prod is down"


@pytest.mark.parametrize("text", ["wrong: {}", "user={}x", "https://h/p?q={}", "{}"])
def test_a_known_secret_is_hidden_wherever_it_stands(text: str) -> None:
    assert SECRET not in redact(text.format(SECRET), [SECRET])


def test_a_known_secret_is_hidden_in_a_url_as_well() -> None:
    assert "p%40ss%2Fword" not in redact("GET /x?q=p%40ss%2Fword", ["p@ss/word"])


def test_a_short_secret_does_not_take_words_apart() -> None:
    assert redact("abc: cab abcd", ["abc"]) == "***: cab abcd"


def test_the_secrets_of_a_connection_are_known_with_the_password_alone() -> None:
    config = HaConfig.build(
        zookeeper="zk:2181",
        storage_root="file:///data",
        digest_auth="user:zk-secret",
        sasl_auth="user:sasl-secret",
        tls={"key_password": "tls-secret"},
        s3={"access_key": "key", "secret_key": "s3-secret"},
    )

    found = secrets_of(config)

    assert {"zk-secret", "user:zk-secret", "sasl-secret", "tls-secret", "s3-secret", "key"} <= found


def test_a_conf_names_its_secrets() -> None:
    conf = {
        "spark.hadoop.fs.s3a.secret.key": "a",
        "spark.ssl.keyPassword": "b",
        "spark.registry.basic.auth.user.info": "user:e",
        "spark.app.name": "c",
        "DB_TOKEN": "d",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.Provider",
        "spark.security.credentials.hive": "false",
    }

    assert secret_values(conf) == {"a", "b", "d", "user:e", "e"}


@pytest.mark.parametrize(
    "text", ["a" * 2_000_000, "password" * 200_000, "://a:" * 200_000, "-" * 1_000_000, "{" * 1_000_000]
)
def test_a_long_text_takes_no_long_time(text: str) -> None:
    began = time.monotonic()

    redact(text)

    assert time.monotonic() - began < 5


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabcd\n-----END RSA PRIVATE KEY-----\n"


@pytest.mark.parametrize("cut", [end + 1 for end, letter in enumerate(KEY) if letter == "\n"])
def test_a_key_that_spans_pieces_is_hidden_in_all_of_them(cut: int) -> None:
    """Pieces end with a line; with which one is not known."""
    text = PublicText()

    shown = text(f"before\n{KEY[:cut]}") + text(f"{KEY[cut:]}after\n")

    assert "MIIE" not in shown
    assert "abcd" not in shown
    assert shown.startswith("before\n")
    assert shown.endswith("after\n")


def test_a_text_that_begins_inside_a_key_hides_the_rest_of_it() -> None:
    text = PublicText()

    assert text("abcd\n-----END PRIVATE KEY-----\nafter\n") == "***-----END PRIVATE KEY-----\nafter\n"


def test_a_piece_in_the_middle_of_a_key_is_left_out() -> None:
    text = PublicText()
    text("-----BEGIN PRIVATE KEY-----\n")

    assert text("abcd\n") == ""
    assert text("-----END PRIVATE KEY-----\nafter\n") == "-----END PRIVATE KEY-----\nafter\n"


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
