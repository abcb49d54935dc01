"""After any sequence of steps with collections, every live and every retained checkpoint is whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.areas.layered.garbage import note_needs, remove
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.errors import CheckpointMissingError, ObjectExistsError
from tests.support.checkpoints.collected import DAY, World
from tests.support.checkpoints.executed import JOB, LAST
from tests.support.spark.recorded_job import QUERY


# The cached job is made by Spark when it is not there yet.
pytestmark = pytest.mark.timeout(300)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("execute"), st.integers(1, 3)),
        st.tuples(st.just("take over"), st.just(0)),
        st.tuples(st.just("retain"), st.integers(0, 2)),
        st.tuples(st.just("release"), st.just(0)),
        st.tuples(st.just("restore"), st.just(0)),
        st.tuples(st.just("zombie"), st.integers(0, 13)),
        st.tuples(st.just("remove"), st.just(0)),
        st.tuples(st.just("time"), st.integers(0, 40)),
        st.tuples(st.just("collect"), st.integers(0, 400)),
    ),
    min_size=3,
    max_size=14,
)


class Story:
    """One sequence of steps; each leaves whole all that may be needed."""

    def __init__(self, root: Path) -> None:
        self.world = World(root)
        self.world.execute(1)
        self._epoch = 1

    def step(self, what: str, number: int) -> None:
        """Take one step."""
        world = self.world
        committed = progress(world.area.tree(world.current) / QUERY).committed
        if what == "execute":
            world.execute(min(committed + number, LAST))
        elif what == "take over":
            world.take_over(self._next())
        elif what == "retain":
            self._retain(max(committed - number, 0))
        elif what == "release" and world.cuts:
            world.cuts.pop(next(iter(world.cuts)))
        elif what == "restore" and world.cuts:
            key = next(iter(world.cuts))
            world.restore(key, min(world.cuts[key][QUERY]), self._next())
        elif what == "zombie":
            self._write_as_a_zombie(number)
        elif what == "remove":
            world.remove_others()
        elif what == "time":
            world.pass_time(number * DAY)
        elif what == "collect":
            self._collect(number)

    def _retain(self, batch: int) -> None:
        current = self.world.current
        try:
            self.world.area.retain(current, JOB.pin(1, 1), {QUERY: batch}, sinks={})
        except CheckpointMissingError:
            return  # a directory that begins from a cut has no older batch
        self.world.cuts.setdefault(current, {}).setdefault(QUERY, set()).add(batch)

    def _next(self) -> str:
        self._epoch += 1
        return JOB.working_directory(self._epoch, "x")

    def _write_as_a_zombie(self, number: int) -> None:
        for name in self.world.files.names(JOB.live):
            if f"{JOB.live}{name}" != self.world.current:
                place = f"{JOB.live}{name}/{QUERY}"
                planned = progress(self.world.area.tree(f"{JOB.live}{name}") / QUERY).planned
                self.world.files.write(f"{place}/state/0/0/{number}_zombie.zip", b"late")
                with pytest.raises(ObjectExistsError):  # it plans its next batch
                    self.world.files.create(f"{place}/offsets/{planned + 1}", b"late")

    def _collect(self, removals: int) -> None:
        """Collect as a process that is killed after so many removals."""
        found = self.world.search()
        note_needs(self.world.files, found.known, lambda: None)
        for done, _ in enumerate(remove(self.world.files, found.garbage, lambda: None)):
            if done == removals:
                return


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS)
def test_after_any_collection_every_live_and_retained_checkpoint_is_whole(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    story = Story(tmp_path_factory.mktemp("story") / "storage")

    for what, number in steps:
        story.step(what, number)
        if what == "collect":
            story.world.check()

    story.world.pass_time(timedelta(days=2).total_seconds())
    story.world.collect()
    story.world.check()
