"""What a restore plan is told on the command line beside the cut: whom to ask, and what nobody minds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from airflow_provider_ha.errors import ConfigurationError


KafkaBootstrap = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-bootstrap", help="Brokers that a query reads from; may be repeated.", metavar="QUERY=HOST:PORT[,...]"
    ),
]
KafkaProperties = Annotated[
    str | None,
    typer.Option("--kafka-properties", help="File of client properties to log in there, of mode 0600.", metavar="FILE"),
]
Unchecked = Annotated[
    list[str] | None,
    typer.Option(
        "--unchecked",
        help="Go on although something of this query could not be found out; also needs --allow LOSS_POSSIBLE.",
        metavar="QUERY",
    ),
]
FreshId = Annotated[
    list[str] | None,
    typer.Option(
        "--fresh-id", help="Give this query a fresh id: its Delta table skips none of its batches.", metavar="QUERY"
    ),
]


def by_query(option: str, given: Iterable[str] | None) -> Mapping[str, str]:
    """Return query -> value of a repeated ``QUERY=VALUE``.

    :raises ConfigurationError: One has another form, or a query comes twice.
    """
    found: dict[str, str] = {}
    for each in given or ():
        query, separator, value = each.partition("=")
        if not separator or not query or not value:
            raise ConfigurationError(f"{option} {each!r} is no QUERY=VALUE", next_step="Name the query first")
        if query in found:
            raise ConfigurationError(f"{option} names query {query!r} twice", next_step="Separate hosts by commas")
        found[query] = value
    return found
