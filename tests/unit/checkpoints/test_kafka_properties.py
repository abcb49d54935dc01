"""The file with what is needed to log in to Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.restore._kafka_client import held_offsets, read_properties
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
        read_properties(properties(tmp_path, f"a=b\n{SECRET}\n"))

    assert SECRET not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_properties(tmp_path / "none")


def test_a_property_that_the_client_does_not_know_is_the_users_mistake(tmp_path: Path) -> None:
    path = properties(tmp_path, f"no.such.property=x\nsasl.password={SECRET}\n")

    with pytest.raises(ConfigurationError, match=r"no\.such\.property") as caught:
        held_offsets("127.0.0.1:1", ["t"], properties=path)

    assert SECRET not in str(caught.value)
