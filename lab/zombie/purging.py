"""A zombie that is never frozen, starts its query again whenever it dies, and deletes all that it can name."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from threading import Event

from lab.zombie.cells import State
from lab.zombie.play import KNOWN, Outcome, deletes_left, reason, scene
from lab.zombie.stage import Stage


_GRACE = timedelta(seconds=30)
_FIRST = 6  # files
_PAUSE = 5.0  # seconds between two files, and between two passes of the collector
_ENDED = "asked to, after {:.0f} s and {} deaths of its query"


def purge(stage: Stage, folder: Path, state: State, seconds: float) -> Outcome:
    """Let it live beside its successor.

    :param folder: For the input.
    :param seconds: How long, from the first batch of the successor.
    :raises AssertionError: It could not be played to its end.
    """
    began = time.monotonic()
    with scene(stage, folder, state) as on:
        on.stream.feed(_FIRST)
        zombie, on.spare = on.hire(), on.hire()
        for each in (zombie, on.spare):
            each.await_ready()
        on.lead(zombie, 1, stubborn=True)
        zombie.await_this(lambda: on.progress(1).committed >= 3, "some batches")  # purges have begun
        leader = on.take_over()
        logs, base = on.log_names(1), on.base(2)
        leader = on.lead_to(leader, _FIRST - 1)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            on.stream.feed(1)
            on.collect(_GRACE)
            leader = on.lead_to(leader, on.stream.files - 1)
            Event().wait(_PAUSE)  # the pace of the input
        told = zombie.stop()
        on.stream.feed(1)
        leader = on.lead_to(leader, on.stream.files - 1)
        seen = leader.stop()
        on.expect(on.log_names(1) == logs, "The old epoch has added an entry to its logs.")
        kept = {place: digest for place, digest in base.items() if place not in on.collected}
        on.expect(on.digests(kept) == kept, "A file of the base was changed.")
        on.wrong += on.stream.wrong(seen)
        deaths, left = told["failures"], deletes_left([told])
        on.expect(len(deaths) > 1, "The zombie did not go on.")
        on.expect({reason(failure) for failure in deaths} <= set(KNOWN.values()), f"It died of {deaths[-1][:300]}")
        on.expect(left > len(base), f"The zombie has deleted only {left} times.")
        stage.give_back(leader)
        stage.give_back(zombie)
    return Outcome(
        seconds=time.monotonic() - began,
        ended=_ENDED.format(seconds, len(deaths)),
        takeovers=on.epoch - 1,
        base=len(base),
        left=left,
        collected=len(on.collected),
        wrong=on.wrong,
    )
