"""``--watch``: show a view repeatedly, until Ctrl-C.

An outage of ZooKeeper or of the storage is shown, and the command waits for its end: a person who watches a job at
night wants to see when it is over.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep
from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.errors import HaError


Watch = Annotated[
    float | None,
    typer.Option("--watch", help="Repeat at this interval in seconds, until Ctrl-C.", metavar="SECONDS", min=0.5),
]


def repeated(show: Callable[[], None], every: float | None) -> None:
    """Call *show* once, or until Ctrl-C; a terminal is cleared before each.

    :param every: Seconds between two calls; ``None`` for one call.
    :raises HaError: The first call failed, or a later one for a reason that waiting does not resolve.
    """
    if every is None:
        show()
        return
    shown = False
    try:
        while True:
            if console.out.is_terminal:
                console.out.clear()
            try:
                show()
                shown = True
            except HaError as error:
                if not (shown and error.retryable):
                    raise
                console.print_error(error, as_json=False)
            console.out.file.flush()
            sleep(every)
    except KeyboardInterrupt:
        return
