"""Interface of a type of sink, with defaults (``sinks`` lists all types).

The defaults are for unknown sinks: they execute every batch they receive, and cannot report their batches. A type
overrides the defaults that it knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings, SinkCase, SinkConnector
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind


BY_KEY = "its sink has each row once: it is declared repeatable"
SKIPS = "its sink has each row once: it skips a batch that it has"
Conf = Callable[[str], "str | None"]
"""Returns a value of the session's conf."""


class QueryMemory(Protocol):
    """An output that remembers the highest batch of each query, by the id of the query."""

    def exists(self) -> bool:
        """Return whether the output exists.

        :raises StorageUnavailableError: It could not be read.
        """

    def last_batch(self, query_id: str) -> int:
        """Return the query's highest batch in the output; -1 without a batch or an output.

        :raises RestoreUnknownError: The output's batches cannot be read.
        :raises StorageUnavailableError: It does not answer.
        """


class SinkType:
    """Type of sink.

    :cvar table: Name for an output that remembers batches by the query's id; ``None`` without such outputs.
    :cvar has_notes: Whether a fenced function of the script may have noted its batches.
    """

    table: ClassVar[str | None] = None
    has_notes: ClassVar[bool] = False

    def takes(self, source: str) -> bool:
        """Return whether a writer of the format *source* writes to it."""
        raise NotImplementedError

    def owns(self, sink: QuerySink) -> bool:
        """Return whether a recorded sink is of this type."""
        return sink.kind is SinkKind.OTHER and sink.format is not None and self.takes(sink.format)

    def sink(self, source: str, path: str | None) -> QuerySink:  # noqa: ARG002  # used by overrides
        """Return the sink of a writer.

        :param source: Its format.
        :param path: Its option ``path``; ``None`` without one.
        :raises ConfigurationError: Its batches could not be read there.
        """
        return QuerySink(kind=SinkKind.OTHER, format=source)

    def named(self, said: str, reach: Reach) -> QuerySink | None:  # noqa: ARG002  # used by overrides
        """Return the sink that a user names; ``None`` when it is of another type.

        :param said: The directory of an output, or a format.
        :raises ConfigurationError: It is of this type, and must be named differently.
        """
        return self.sink(said, None) if self.takes(said) else None

    def name(self, source: str, path: str | None) -> str | None:  # noqa: ARG002  # used by overrides
        """Return the user's name for a writer's sink (:meth:`named`); ``None`` if unknown."""
        return source

    def identity(self, options: Mapping[str, str]) -> str | None:  # noqa: ARG002  # used by overrides
        """Return the identity of a writer's output among all outputs, the same at every start.

        :param options: Of the writer, with names in lower case.
        """
        return None

    def refusal(self, path: str, conf: Conf) -> tuple[str, str] | None:  # noqa: ARG002  # used by overrides
        """Return the reason why two drivers could not be kept apart there, and the next step; ``None`` if they can.

        :param path: The writer's option ``path``; empty without one.
        :returns: Text after the name of the query, and the user's next step.
        """
        return None

    def connector(self, sink: QuerySink, reach: Reach) -> SinkConnector | None:  # noqa: ARG002  # used by overrides
        """Return an output's record of batches; ``None`` for a type without."""
        return None

    def memory(self, sink: QuerySink, reach: Reach) -> QueryMemory | None:  # noqa: ARG002  # used by overrides
        """Return the output that remembers the query; ``None`` without one, or if it cannot be read from here."""
        return None

    def again(self, sink: QuerySink) -> str:
        """Return the effect of a repeated batch, as the end of a sentence about the query."""
        return BY_KEY if sink.repeatable else "its sink may have the rows of a batch that comes again twice"

    def remembers_unseen(self, sink: QuerySink) -> bool:  # noqa: ARG002  # used by overrides
        """Return whether it may remember batches, or keep rows, where no start of a query checks it."""
        return True

    def judge(self, sink: QuerySink, case: SinkCase, findings: Findings) -> dict[int, str]:
        """Add the sink's findings about a restore; return the digests of batches to set aside, by batch. Pure."""
        raise NotImplementedError
