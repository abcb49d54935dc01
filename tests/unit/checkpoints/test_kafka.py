"""Which rows of Kafka come after a cut, and which of them are gone.

The file with what is needed to log in to Kafka.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.sources.kafka_offsets import (
    PartitionOffsets,
    held_offsets,
    parse_kafka_offset,
    partitions_after,
    read_properties,
)
from airflow_provider_ha.errors import ConfigurationError


PLACE = ("orders", 0)


def after(start: int, end: int, held: PartitionOffsets | None) -> tuple[int, int, int]:
    """Return rows that are read again, gone and unread, of one partition."""
    (found,) = partitions_after({PLACE: start}, {PLACE: end}, {PLACE: held} if held else {})
    return found.replayed, found.gone, found.unread


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (PartitionOffsets(0, 20), (10, 0, 0)),
        (PartitionOffsets(0, 25), (10, 0, 5)),
        (PartitionOffsets(10, 25), (10, 0, 5)),
        (PartitionOffsets(11, 25), (10, 1, 5)),
        (PartitionOffsets(20, 25), (10, 10, 5)),
        (PartitionOffsets(23, 25), (10, 13, 2)),
        (PartitionOffsets(25, 25), (10, 15, 0)),
        (PartitionOffsets(0, 7), (10, 10, 0)),
        (None, (10, 10, 0)),
    ],
    ids=[
        "all is there",
        "what no batch has read is no replay",
        "the earliest offset is the next one to be read",
        "one row is gone",
        "the whole replay is gone",
        "rows that no batch had read are gone as well",
        "everything is gone",
        "another topic of this name",
        "no partition",
    ],
)
def test_rows_after_a_cut_at_10_and_a_replay_to_20(
    held: PartitionOffsets | None, expected: tuple[int, int, int]
) -> None:
    assert after(10, 20, held) == expected


@pytest.mark.parametrize(("earliest", "gone"), [(10, 0), (12, 2)])
def test_without_a_replay_only_what_comes_next_matters(earliest: int, gone: int) -> None:
    assert after(10, 10, PartitionOffsets(earliest, 15)) == (0, gone, 15 - max(10, earliest))


@pytest.mark.parametrize(("earliest", "gone"), [(0, 0), (3, 3)])
def test_a_partition_that_no_record_knows_is_read_from_its_beginning(earliest: int, gone: int) -> None:
    new = ("orders", 1)

    _, found = partitions_after(
        {PLACE: 5}, {PLACE: 5}, {PLACE: PartitionOffsets(0, 5), new: PartitionOffsets(earliest, 9)}
    )

    assert (found.partition, found.start, found.gone, found.unread) == (1, 0, gone, 9 - earliest)


@pytest.mark.parametrize("other", [None, "17", '{"logOffset": 3}', '{"orders": {"a": 1}}', "{}"])
def test_the_offset_of_another_source_is_not_taken_for_kafkas(other: str | None) -> None:
    assert parse_kafka_offset(other) is None


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
