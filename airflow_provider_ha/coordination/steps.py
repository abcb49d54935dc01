"""Batched reads of many objects, where an object needs several dependent reads.

A reader is a generator: it yields read requests, receives results, and returns a value. The same reader serves one
object or a thousand, sharing the round trips. The results contain the responses for all readers: each reader
looks up its own paths.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator, PathWatch
from airflow_provider_ha.coordination.reads import Reads, Seen
from airflow_provider_ha.errors import HaError


T = TypeVar("T")
Steps = Generator[Reads, Seen, T]


def follow(coordinator: Coordinator, steps: Steps[T]) -> T:
    """Return the result of a reader, and raise its errors.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    return follow_all(coordinator, [steps])[0]


def follow_all(coordinator: Coordinator, many: Sequence[Steps[T]], *, watch: PathWatch | None = None) -> list[T]:
    """Return the result of each reader. The reads of each reader keep their order.

    :param watch: Called with the path of a node that was read, when it may have changed.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    results: dict[int, T] = {}
    wanted = _advance(enumerate(many), None, results)
    while wanted:
        # Nodes before lists, in the order of each reader's requests.
        seen = coordinator.read(
            Reads(
                tuple(path for *_, reads in wanted for path in reads.nodes),
                tuple(path for *_, reads in wanted for path in reads.lists),
            ),
            watch=watch,
        )
        wanted = _advance([(number, steps) for number, steps, _ in wanted], seen, results)
    return [results[number] for number in range(len(many))]


def or_error(steps: Steps[T]) -> Steps[T | HaError]:
    """Return the error of a reader in place of its result, so that the results of the others are kept."""
    try:
        return (yield from steps)
    except HaError as error:
        return error


def _advance(
    many: Iterable[tuple[int, Steps[T]]], seen: Seen | None, results: dict[int, T]
) -> list[tuple[int, Steps[T], Reads]]:
    """Return the next reads of each reader; finished readers store their result."""
    wanted = []
    for number, steps in many:
        try:
            wanted.append((number, steps, next(steps) if seen is None else steps.send(seen)))
        except StopIteration as done:  # noqa: PERF203  # a generator ends by it
            results[number] = done.value
    return wanted
