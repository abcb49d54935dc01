"""Actors that take turns: real code that gives way at each request, in an order that a test or a seed decides.

An actor is a greenlet: it stops inside any call of a coordinator, at any depth, and goes on when it is
chosen again. Nothing runs at the same time as anything else, so a schedule is a list of names and repeats exactly.

A *point* is a place where an actor gives way: just before a request is sent. One step of an actor executes that request
and everything up to its next point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from tests.support.fake.ensemble import FakeEnsemble
from tests.support.fake.turns import Alone, Request


__all__ = ["Actor", "Path", "Schedule", "any_request", "every_path"]


def any_request(request: Request) -> bool:
    """Make every request a point."""
    del request
    return True


class Actor:
    """One process, or one thread of it.

    :ivar points: At how many points it has given way.
    :ivar request: What it is about to send; ``None`` while it waits for time to pass.
    :ivar result: What its function returned.
    :ivar error: What its function raised.
    :ivar stopped: A stopped actor is not chosen; see :meth:`FakeEnsemble.pause` for the rest of its process.
    """

    def __init__(self, name: str, function: Callable[[], Any], outside: Any) -> None:
        self.name = name
        self.points = 0
        self.request: Request | None = None
        self.result: Any = None
        self.error: Exception | None = None
        self.stopped = False
        self.killed = False
        self.wakes_at = 0
        self.ready: Callable[[], bool] | None = None
        self._function = function
        self.greenlet = greenlet(self._run, parent=outside)

    def __repr__(self) -> str:
        return f"Actor({self.name})"

    @property
    def done(self) -> bool:
        """Whether it has ended, or was killed."""
        return self.killed or bool(self.greenlet.dead)

    def _run(self) -> None:
        try:
            self.result = self._function()
        except Exception as error:  # noqa: BLE001  # top of an actor: what it raised is for the test to judge
            self.error = error


class Schedule:
    """Decides which actor goes on. Takes the turns of an ensemble over when it is made.

    :param is_point: Which requests are points; the others are sent at once. A request that meets no request of another
        actor (a node that no other actor writes) can be left out without losing an order that matters.
    :param budget: After so many points an actor goes on to its end without giving way; ``None`` for no limit.
    """

    def __init__(
        self,
        ensemble: FakeEnsemble,
        *,
        is_point: Callable[[Request], bool] = any_request,
        budget: int | None = None,
    ) -> None:
        self.actors: list[Actor] = []
        self._ensemble = ensemble
        self._is_point = is_point
        self._budget = budget
        self._alone: Alone = ensemble.alone()
        self._outside = getcurrent()
        self._by_greenlet: dict[Any, Actor] = {}
        ensemble.turns = self

    def actor(self, name: str, function: Callable[[], Any]) -> Actor:
        """Add an actor. It runs up to its first point: at once, or at its first turn when another actor adds it."""
        actor = Actor(name, function, self._outside)
        self.actors.append(actor)
        self._by_greenlet[actor.greenlet] = actor
        if getcurrent() is self._outside:
            self.step(actor)
        return actor

    def runnable(self) -> list[Actor]:
        """Return the actors that can go on now, in the order in which they were added."""
        now = self._ensemble.clock.milliseconds
        return [
            actor
            for actor in self.actors
            if not actor.done and not actor.stopped and (actor.ready is None or actor.wakes_at <= now or actor.ready())
        ]

    def step(self, actor: Actor) -> None:
        """Let an actor go on to its next point."""
        actor.ready = None
        actor.greenlet.switch()

    def kill(self, actor: Actor) -> None:
        """End an actor where it stands, as SIGKILL does: no request of its clean-up is sent."""
        if not actor.done:
            actor.killed = True
            if actor.greenlet:  # it has begun
                actor.greenlet.throw(GreenletExit)

    def run(self, choose: Callable[[Sequence[Actor], Actor | None], Actor]) -> None:
        """Let actors go on until all have ended; when all of them wait, time passes.

        :param choose: Given the actors that can go on and the one that went last, returns the next one.
        """
        last: Actor | None = None
        while True:
            ready = self.runnable()
            if ready:
                last = choose(ready, last)
                self.step(last)
            elif not self._let_time_pass():
                return

    def close(self) -> None:
        """Kill what still runs."""
        for actor in self.actors:
            self.kill(actor)

    def give_way(self, request: Request) -> None:
        """See :class:`Turns`; called by the sessions."""
        actor = self._by_greenlet.get(getcurrent())
        if actor is None:
            return
        if actor.killed:
            raise GreenletExit
        if self._is_point(request) and (self._budget is None or actor.points < self._budget):
            actor.points += 1
            actor.request = request
            self._switch_out(actor)

    def wait(self, milliseconds: int, ready: Callable[[], bool]) -> None:
        """See :class:`Turns`; called by the sessions."""
        actor = self._by_greenlet.get(getcurrent())
        if actor is None:
            self._alone.wait(milliseconds, ready)
            return
        if milliseconds > 0 and not ready():
            actor.request = None
            actor.wakes_at = self._ensemble.clock.milliseconds + milliseconds
            actor.ready = ready
            self._switch_out(actor)

    def _switch_out(self, actor: Actor) -> None:
        self._outside.switch()
        if actor.killed:
            raise GreenletExit

    def _let_time_pass(self) -> bool:
        waiting = [actor for actor in self.actors if not actor.done and not actor.stopped]
        if not waiting:
            return False
        now = self._ensemble.clock.milliseconds
        until = min(self._ensemble.next_due(), *(actor.wakes_at for actor in waiting))
        self._ensemble.advance(max(1, until - now) / 1000)
        return True


@dataclass
class Path:
    """One way through a tree of choices. Give its :meth:`choose` to :meth:`Schedule.run`.

    :ivar names: The chosen actors, step by step: for the message of a test that fails.
    """

    prefix: tuple[int, ...]
    preemptions: int | None
    names: list[str] = field(default_factory=list)
    taken: list[tuple[int, int]] = field(default_factory=list)

    def choose(self, ready: Sequence[Actor], last: Actor | None) -> Actor:
        """Choose as the prefix says, then the actor that went last while that is possible."""
        goes_on = last is not None and last in ready
        options = [last, *(actor for actor in ready if actor is not last)] if last is not None and goes_on else [*ready]
        if goes_on and self.preemptions == 0:
            options = options[:1]
        position = len(self.taken)
        index = self.prefix[position] if position < len(self.prefix) else 0
        if goes_on and index and self.preemptions is not None:
            self.preemptions -= 1
        self.taken.append((index, len(options)))
        chosen = options[index]
        self.names.append(chosen.name)
        return chosen


def every_path(*, preemptions: int | None = None) -> Iterator[Path]:
    """Yield paths until every order was taken once, depth first. The body of the loop has to run one schedule on each.

    :param preemptions: How often an actor that could go on may be interrupted; ``None`` for no limit.
    """
    prefix: tuple[int, ...] | None = ()
    while prefix is not None:
        path = Path(prefix, preemptions)
        yield path
        prefix = _next(path.taken)


def _next(taken: Sequence[tuple[int, int]]) -> tuple[int, ...] | None:
    for position in range(len(taken) - 1, -1, -1):
        index, options = taken[position]
        if index + 1 < options:
            return (*(index for index, _ in taken[:position]), index + 1)
    return None
