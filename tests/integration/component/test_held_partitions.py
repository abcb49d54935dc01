"""Which executor gets which partition of state in a restart: one whose host has the newest copies, in fair parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.support.spark.component_jvm import ComponentJvm


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
JOB = "bucket/root/jobs/j/live"
OWN = "has3a://bucket/root/jobs/j/live/e3-x/totals"


class Hosts:
    """Executors that report the copies of their hosts: epoch, query, operator and partition -> version."""

    def __init__(self, jvm: ComponentJvm) -> None:
        self._held = jvm.classes.HeldPartitions
        field = jvm.jvm.java.lang.Class.forName("io.github.sparkha.HeldPartitions").getDeclaredField("HOSTS")
        field.setAccessible(True)
        self._all = field.get(None)

    def have(self, **executors: Mapping[str, int]) -> None:
        """Report what the hosts of these executors have, and nothing else."""
        self._all.clear()
        for executor, held in executors.items():
            versions = {f"{JOB}/{partition}": str(version) for partition, version in held.items()}
            self._held.report(executor, f"host-of-{executor}", versions)

    def assigned(self, partitions: int = 4, location: str = OWN) -> dict[str, str]:
        """Return partition and stores -> executor."""
        found = self._held.assign(location, partitions)
        return {" ".join((each.name(), *each.stores())).rstrip(): found[each].id() for each in found}


@pytest.fixture
def hosts(jvm: ComponentJvm) -> Iterator[Hosts]:
    made = Hosts(jvm)
    yield made
    made.have()


def test_a_partition_returns_to_the_host_with_its_copies(hosts: Hosts) -> None:
    hosts.have(
        a={"e2-x/totals/state/0/0": 7, "e2-x/totals/state/0/3": 7},
        b={"e2-x/totals/state/0/1": 7, "e1-x/totals/state/0/2": 7},
    )

    assert hosts.assigned() == {"state/0/0": "a", "state/0/3": "a", "state/0/1": "b", "state/0/2": "b"}


def test_newer_copies_decide(hosts: Hosts) -> None:
    hosts.have(a={"e2-x/totals/state/0/0": 7}, b={"e1-x/totals/state/0/0": 6})

    assert hosts.assigned() == {"state/0/0": "a"}


def test_copies_of_another_query_or_job_do_not_count(hosts: Hosts) -> None:
    hosts.have(a={"e2-x/others/state/0/0": 7, "e2-x/totals2/state/0/0": 7})

    assert hosts.assigned() == {}
    assert hosts.assigned(location="has3a://bucket/root/jobs/k/live/e3-x/others") == {}
    assert hosts.assigned(location="has3a://other/root/jobs/j/live/e3-x/others") == {}


def test_all_stores_of_a_partition_go_to_one_executor(hosts: Hosts) -> None:
    hosts.have(
        a={"e2-x/totals/state/0/0/left": 7}, b={"e2-x/totals/state/0/0/right": 7, "e2-x/totals/state/0/0/left": 6}
    )

    assert list(hosts.assigned()) == ["state/0/0 left right"]


def test_no_executor_gets_more_than_one_and_a_half_times_its_share(hosts: Hosts) -> None:
    hosts.have(a={f"e2-x/totals/state/0/{number}": 7 for number in range(8)}, b={})

    assert list(hosts.assigned().values()) == ["a"] * 6


def test_a_share_counts_the_partitions_that_a_lost_host_had(hosts: Hosts) -> None:
    hosts.have(a={"e2-x/totals/state/0/0": 7, "e2-x/totals/state/0/1": 7}, b={}, c={})

    assert hosts.assigned(partitions=4) == {"state/0/0": "a", "state/0/1": "a"}


def test_a_share_counts_the_partitions_that_the_copies_show(hosts: Hosts) -> None:
    hosts.have(a={f"e2-x/totals/state/0/{number}": 7 for number in range(4)})

    assert len(hosts.assigned(partitions=1)) == 4


def test_each_operator_has_its_share(hosts: Hosts) -> None:
    both = {f"e2-x/totals/state/{operator}/{number}": 7 for operator in (0, 1) for number in range(4)}
    hosts.have(a=both, b={})

    assert sorted(hosts.assigned()) == [f"state/{operator}/{number}" for operator in (0, 1) for number in range(3)]


def test_executors_of_one_host_share_its_partitions(hosts: Hosts) -> None:
    all_of_them = {f"e2-x/totals/state/0/{number}": 7 for number in range(4)}
    hosts.have(a=all_of_them, b=all_of_them)

    assert sorted(hosts.assigned().values()) == ["a", "a", "b", "b"]


def test_an_executor_that_has_reported_again_has_what_it_said_last(hosts: Hosts) -> None:
    hosts.have(a={"e2-x/totals/state/0/0": 7})
    hosts.have(a={})

    assert hosts.assigned() == {}
