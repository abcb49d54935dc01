"""The claims of two live processes of one task instance."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator, Op
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import OutcomeUnknownError
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.runs.watchers import KillPolicy, claim, follow, follow_first, followed, release


BACKENDS = ("fake", "zookeeper")


@pytest.fixture
def paths(coordinator: Coordinator, cluster_paths: ClusterPaths) -> JobPaths:
    paths = cluster_paths.job("flights")
    create_job(coordinator, paths)
    return paths


class LosesAnswers:
    """A session whose writes are applied, but whose first answer never comes."""

    def __init__(self, inner: Coordinator) -> None:
        self._inner = inner
        self._lose = True

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        versions = self._inner.commit(*ops, timeout=timeout)
        if self._lose:
            self._lose = False
            raise OutcomeUnknownError("the answer was lost")
        return versions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_who_was_overtaken_has_nothing_to_kill(coordinator: Coordinator, paths: JobPaths) -> None:
    first = claim(coordinator, paths, "w", ti_id="try-1", when_killed=KillPolicy.CANCEL)
    second = claim(coordinator, paths, "w", ti_id="try-1", when_killed=KillPolicy.CANCEL)

    assert not release(coordinator, paths, "w", first)
    assert release(coordinator, paths, "w", second)


def test_a_claim_is_given_up_once(coordinator: Coordinator, paths: JobPaths) -> None:
    version = claim(coordinator, paths, "w", ti_id="try-1", when_killed=KillPolicy.CANCEL)

    assert release(coordinator, paths, "w", version)
    assert not release(coordinator, paths, "w", version)


def test_an_old_claim_never_looks_like_a_new_one(coordinator: Coordinator, paths: JobPaths) -> None:
    """Fails when a release deletes the node: versions would begin again."""
    old = claim(coordinator, paths, "w", ti_id="try-1", when_killed=KillPolicy.CANCEL)
    release(coordinator, paths, "w", old)

    claim(coordinator, paths, "w", ti_id="try-2", when_killed=KillPolicy.CANCEL)

    assert not release(coordinator, paths, "w", old)


def test_a_lost_answer_neither_loses_nor_doubles_a_claim(coordinator: Coordinator, paths: JobPaths) -> None:
    version = claim(LosesAnswers(coordinator), paths, "w", ti_id="try-1", when_killed=KillPolicy.DETACH)

    assert coordinator.get(paths.watcher("w")).version == version
    assert release(LosesAnswers(coordinator), paths, "w", version)
    assert not release(coordinator, paths, "w", version)


def test_what_a_watcher_follows_is_remembered_and_touches_no_claim(coordinator: Coordinator, paths: JobPaths) -> None:
    version = claim(coordinator, paths, "w", ti_id="try-1", when_killed=KillPolicy.CANCEL)

    before = followed(coordinator, paths, "w")
    follow(coordinator, paths, "w", 1)
    follow(coordinator, paths, "w", 3)

    assert (before, followed(coordinator, paths, "w"), followed(coordinator, paths, "other")) == (None, 3, None)
    assert release(coordinator, paths, "w", version)


def test_a_watcher_that_follows_what_it_found_first_stays_with_it(coordinator: Coordinator, paths: JobPaths) -> None:
    assert [follow_first(coordinator, paths, "w", run) for run in (1, 2)] == [1, 1]


def test_a_lost_answer_does_not_lose_what_a_watcher_follows(coordinator: Coordinator, paths: JobPaths) -> None:
    follow(LosesAnswers(coordinator), paths, "w", 2)

    assert followed(coordinator, paths, "w") == 2


def test_any_request_id_can_follow(coordinator: Coordinator, paths: JobPaths) -> None:
    follow(coordinator, paths, "a request/with spaces", 1)

    assert followed(coordinator, paths, "a request/with spaces") == 1
