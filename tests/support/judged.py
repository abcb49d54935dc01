"""What a cell of a matrix comes to: a proof of hours plays them all, a test a few."""

from __future__ import annotations

from pydantic import BaseModel


class Judged(BaseModel):
    """The outcome of a cell.

    :param seconds: How long it took.
    :param wrong: What does not hold, one sentence each.
    """

    seconds: float
    wrong: list[str]
