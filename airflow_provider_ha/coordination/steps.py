"""Reads of many things in few round trips, where each thing needs several: what it reads next depends on an answer.

A reader is a generator: it yields what it wants to read, is sent what was seen, and returns what it made of that. So
one reader serves for one thing and for a thousand; these share their round trips. What is seen has the answers to all
of them: a reader looks up its own paths.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.reads import Reads, Seen
from airflow_provider_ha.errors import HaError


T = TypeVar("T")
Steps = Generator[Reads, Seen, T]


def follow(coordinator: Coordinator, steps: Steps[T]) -> T:
    """Return what one reader returns, and raise what it raises.

    :raises NotConnectedError: It could not be read.
    """
    return follow_all(coordinator, [steps])[0]


def follow_all(coordinator: Coordinator, many: Sequence[Steps[T]]) -> list[T]:
    """Return what each reader returns. The reads of one of them keep their order.

    :raises NotConnectedError: It could not be read.
    """
    results: dict[int, T] = {}
    wanted = _advance(enumerate(many), None, results)
    while wanted:
        # Nodes before lists, as each reader asked for them.
        seen = coordinator.read(
            Reads(
                tuple(path for *_, reads in wanted for path in reads.nodes),
                tuple(path for *_, reads in wanted for path in reads.lists),
            )
        )
        wanted = _advance([(number, steps) for number, steps, _ in wanted], seen, results)
    return [results[number] for number in range(len(many))]


def or_error(steps: Steps[T]) -> Steps[T | HaError]:
    """Return the error of a reader in place of its result: one that fails hides no other."""
    try:
        return (yield from steps)
    except HaError as error:
        return error


def _advance(
    many: Iterable[tuple[int, Steps[T]]], seen: Seen | None, results: dict[int, T]
) -> list[tuple[int, Steps[T], Reads]]:
    """Return what each reader wants to read next; those that are done leave their result."""
    wanted = []
    for number, steps in many:
        try:
            wanted.append((number, steps, next(steps) if seen is None else steps.send(seen)))
        except StopIteration as done:  # noqa: PERF203  # a generator ends by it
            results[number] = done.value
    return wanted
