"""What plans or commits a batch is created while the lease of this JVM's leader holds, and only where it works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from airflow_provider_ha.driver.jvm.component import rehearsal
from tests.integration.component.conftest import Local
from tests.support.spark.component_jvm import ComponentJvm, java_class, uptime


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
GATED = ("offsets/0", "commits/0")
LOST = "io.github.sparkha.Gate$LeaseLost"


def create(local: Local, name: str, *, overwrite: bool = False) -> None:
    manager = local.manager(name.rpartition("/")[0])
    local.jvm.create(manager, f"{local.uri}/{name}", b"entry", overwrite=overwrite)


@pytest.fixture
def clock(jvm: ComponentJvm, tmp_path: Path) -> Iterator[Any]:
    """What the gate takes for the time since boot, in seconds; the JVM's own clocks go on as they do."""
    field = jvm.jvm.java.lang.Class.forName("io.github.sparkha.Uptime").getDeclaredField("source")
    field.setAccessible(True)
    file = tmp_path / "uptime"

    def shows(seconds: float) -> None:
        file.write_text(f"{seconds:.2f} 1.00\n", encoding="ascii")

    of = jvm.jvm.java.nio.file.Paths
    shows(1000)
    field.set(None, of.get(jvm.jvm.java.net.URI(f"file://{file}")))
    yield shows
    field.set(None, of.get(jvm.jvm.java.net.URI("file:///proc/uptime")))


@pytest.mark.parametrize("name", GATED)
def test_it_is_closed_until_a_leader_opens_it(local: Local, name: str) -> None:
    with pytest.raises(Py4JJavaError, match="the gate is closed") as refused:
        create(local, name)

    assert java_class(refused.value) == LOST
    assert not (local.own / name).exists()


@pytest.mark.parametrize("name", GATED)
def test_nothing_is_begun_without_a_lease(local: Local, name: str) -> None:
    manager = local.manager(name.rpartition("/")[0])

    with pytest.raises(Py4JJavaError, match="the gate is closed"):
        manager.createAtomic(local.jvm.path(f"{local.uri}/{name}"), False)


def test_a_standby_driver_opens_it_for_its_warm_up_only(local: Local) -> None:
    elsewhere = f"hafile://{local.root}/elsewhere/offsets"
    with rehearsal(local.jvm.jvm, f"hafile://{local.own.parent}", 60):
        create(local, "offsets/0")
        with pytest.raises(Py4JJavaError, match=str(local.own.parent)):
            local.jvm.create(local.jvm.manager(local.conf, elsewhere), f"{elsewhere}/0", b"entry")

    with pytest.raises(Py4JJavaError, match="the warm-up is over"):
        create(local, "offsets/1")


def test_it_is_closed_until_the_lease_is_known(local: Local) -> None:
    local.jvm.classes.Gate.bind("j", 8, f"hafile://{local.own.parent}")

    with pytest.raises(Py4JJavaError, match="ran out"):
        create(local, "offsets/0")


@pytest.mark.parametrize("name", GATED)
def test_a_leader_s_entries_pass(local: Local, name: str) -> None:
    local.jvm.open_gate(f"hafile://{local.own.parent}")

    create(local, name)

    assert (local.own / name).read_bytes() == b"entry"


@pytest.mark.parametrize("name", ["metadata", "sources/0/0", "state/0/3/1.delta"])
def test_what_neither_plans_nor_commits_passes_anyway(local: Local, name: str) -> None:
    create(local, name)

    assert (local.own / name).exists()


def test_the_log_of_a_file_sink_passes_with_a_lease_only(local: Local, tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/out/_spark_metadata"
    manager = local.jvm.manager(local.conf, uri)

    with pytest.raises(Py4JJavaError, match="the gate is closed"):
        local.jvm.create(manager, f"{uri}/0", b"v1")
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    local.jvm.create(manager, f"{uri}/0", b"v1")

    assert (tmp_path / "out/_spark_metadata/0").read_bytes() == b"v1"


def test_the_log_of_another_epoch_is_refused(local: Local) -> None:
    local.jvm.open_gate(f"hafile://{local.own.parent.parent}/e9-x")

    with pytest.raises(Py4JJavaError, match="epoch 8 of job j works in"):
        create(local, "offsets/0")


def test_a_lease_that_ends_while_the_file_is_open_refuses_it(local: Local) -> None:
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    stream = local.manager("commits").createAtomic(local.jvm.path(f"{local.uri}/commits/0"), False)
    stream.write(b"entry")
    local.jvm.close_gate()

    with pytest.raises(Py4JJavaError) as refused:
        stream.close()
    stream.cancel()  # as Spark does after any failure

    assert java_class(refused.value) == LOST
    assert list((local.own / "commits").iterdir()) == []


def test_time_while_the_machine_slept_counts(local: Local, clock: Any) -> None:
    local.jvm.classes.Gate.bind("j", 8, f"hafile://{local.own.parent}")
    local.jvm.classes.Gate.extend(1_010_000)
    create(local, "offsets/0")
    clock(1010)  # no time passes on the JVM's other clocks

    with pytest.raises(Py4JJavaError, match="the lease of epoch 8 of job j ran out"):
        create(local, "commits/0")


def test_a_clock_that_cannot_be_read_closes_it(local: Local, clock: Any, tmp_path: Path) -> None:
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    (tmp_path / "uptime").write_text("soon", encoding="ascii")

    with pytest.raises(Py4JJavaError, match="does not show the time since boot"):
        create(local, "offsets/0")


def test_the_later_end_counts_of_two(local: Local) -> None:
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    local.jvm.classes.Gate.extend(uptime() - 1)

    create(local, "offsets/0")

    assert (local.own / "offsets/0").exists()


def test_nothing_prolongs_a_lease_that_was_given_up(local: Local) -> None:
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    local.jvm.close_gate()
    local.jvm.classes.Gate.extend(uptime() + 600_000)

    assert local.jvm.classes.Gate.left() == 0
    with pytest.raises(Py4JJavaError, match="the gate is closed: the test is over"):
        create(local, "offsets/0")


def test_what_it_refuses_is_counted(local: Local) -> None:
    before = local.jvm.counts().get("gate_refused", 0)

    with pytest.raises(Py4JJavaError):
        create(local, "offsets/0")

    assert local.jvm.counts()["gate_refused"] == before + 1
