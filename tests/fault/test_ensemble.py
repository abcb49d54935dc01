"""The ensemble for tests elects as one does whose members know each other's own ports."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ensemble.servers import EmbeddedEnsemble, Member


pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ELECTIONS = 8
# A round that fails costs initLimit (2 s) twice: here no election needs a second one.
LONGEST = 4.0


def lead_and_follow(members: list[Member]) -> bool:
    return sorted(member.mode for member in members) == ["follower", "leader"]


def test_every_election_after_a_kill_of_the_leader_ends_with_its_first_round(
    ensemble: EmbeddedEnsemble, tell: Callable[[str], None]
) -> None:
    took = []
    for _ in range(ELECTIONS):
        killed = ensemble.leader()
        others = [member for member in ensemble.members if member is not killed]

        killed.kill()
        began = monotonic()
        wait_until(
            partial(lead_and_follow, others),
            timeout=60,
            what="a leader and a follower",
        )
        took.append(monotonic() - began)
        ensemble.start()

    tell("elections: " + ", ".join(f"{seconds:.2f} s" for seconds in took))
    assert max(took) < LONGEST, took
