"""The file with what is needed to log in to Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.sources.kafka_offsets import held_offsets, read_properties
from airflow_provider_ha.errors import ConfigurationError


SECRET = "not-for-your-eyes"


def properties(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "kafka.properties"
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(text, encoding="utf-8")
    return path


def test_names_and_values_are_taken_as_they_are(tmp_path: Path) -> None:
    text = f"# login\n\nsecurity.protocol = SASL_SSL\nsasl.password={SECRET}=\n"

    assert read_properties(properties(tmp_path, text)) == {
        "security.protocol": "SASL_SSL",
        "sasl.password": f"{SECRET}=",
    }


def test_without_a_file_nothing_is_set() -> None:
    assert read_properties(None) == {}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigurationError, match="can be read by others") as caught:
        read_properties(properties(tmp_path, f"sasl.password={SECRET}", mode))

    assert "chmod 600" in caught.value.next_step


def test_a_line_that_is_no_property_is_named_by_its_number_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="line 2") as caught:
        read_properties(properties(tmp_path, f"sasl.username=b\n{SECRET}\n"))

    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_properties(tmp_path / "none")


def test_a_property_that_the_client_does_not_know_is_the_users_mistake(tmp_path: Path) -> None:
    path = properties(tmp_path, f"no.such.property=x\nsasl.password={SECRET}\n")

    with pytest.raises(ConfigurationError, match=r"no\.such\.property") as caught:
        held_offsets("127.0.0.1:1", ["t"], properties=path)

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.engine.id",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "oauthbearer_token_refresh_cb",
        "ssl.certificate.verify_cb",
        "debug",
    ],
)
def test_what_loads_or_runs_code_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    path = properties(tmp_path, f"security.protocol=ssl\n{name}={SECRET}\n")

    with pytest.raises(ConfigurationError, match=f"line 2 of Kafka's client properties {path} sets '{name}'") as caught:
        read_properties(path)

    assert "Remove the line" in caught.value.next_step
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["sasl.kerberos.principal", "sasl.kerberos.keytab", "sasl.kerberos.service.name"])
@pytest.mark.parametrize("value", ["x; touch /owned", "$(id)", 'x" || id "', "`id`", "a b"])
def test_what_is_pasted_into_a_shell_command_holds_no_command(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match="a shell interprets"):
        read_properties(properties(tmp_path, f"{name}={value}\n"))


def test_a_login_by_kerberos_and_by_oidc_is_taken(tmp_path: Path) -> None:
    text = "sasl.kerberos.principal=spark/host@EXAMPLE.COM\nsasl.oauthbearer.method=oidc\n"

    assert len(read_properties(properties(tmp_path, text))) == 2


def test_a_line_of_another_kind_of_file_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="line 1") as caught:
        read_properties(properties(tmp_path, f"{SECRET.upper()}==\n"))

    assert SECRET.upper() not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused_although_the_reader_may_read_it(tmp_path: Path) -> None:
    path = properties(tmp_path, "security.protocol=ssl\n")
    os.chown(path, 65534, 65534)

    with pytest.raises(ConfigurationError, match="belong to user 65534, and user 0 reads them") as caught:
        read_properties(path)

    assert "your own copy" in caught.value.next_step
