"""Requested start of a restore, as written by users: ``latest``, ``checkpoint-12``, ``before 14:05``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from airflow_provider_ha.errors import ConfigurationError


LATEST = "latest"
CHECKPOINT, SAVEPOINT = "checkpoint", "savepoint"
_BEFORE = re.compile(r"before[ -](?P<moment>\S.*)")


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Wanted cut; all fields ``None`` mean the latest.

    :param number: The checkpoint of that number, or an older one when it is bad.
    :param savepoint_id: The savepoint with that id, id prefix or label.
    :param before: Cuts taken before that moment, newest first.
    """

    number: int | None = None
    savepoint_id: str | None = None
    before: datetime | None = None


def parse_restore_point(text: str, *, now: datetime) -> RestorePoint:
    """Parse *text*.

    A moment without a zone is in this host's local time. A time of day without a date is the most recent one.

    :param text: ``"latest"``, ``"checkpoint-<n>"``, ``"savepoint-<id>"`` (also with the beginning of an id, or with a
        label), or ``"before <moment>"`` where the moment is ``14:05``, ``2026-11-21T14:05`` or
        ``2026-11-21T14:05:00+00:00``.
    :raises ConfigurationError: It has another form, or the moment is in the future.
    """
    kind, _, name = text.partition("-")
    if text == LATEST:
        return RestorePoint()
    if kind == CHECKPOINT and name.isascii() and name.isdigit():
        return RestorePoint(number=int(name))
    if kind == SAVEPOINT and name:
        return RestorePoint(savepoint_id=name)
    if match := _BEFORE.fullmatch(text):
        return RestorePoint(before=_moment(match["moment"], now))
    raise ConfigurationError(
        f"{text!r} names neither a checkpoint nor a savepoint",
        next_step="Use 'latest', 'checkpoint-<number>', 'savepoint-<id>' or 'before <time>'",
    )


def _moment(text: str, now: datetime) -> datetime:
    try:
        return _time_of_day(time.fromisoformat(text), now)
    except ValueError:
        pass  # not a time of day, so it must be a full date and time
    try:
        # Python 3.10 does not know the Z.
        moment = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is not a time", next_step="Write it as 14:05, 2026-11-21T14:05 or 2026-11-21T14:05:00+00:00"
        ) from None
    moment = moment.astimezone()  # without a zone, it is in this host's time
    if moment > now:
        raise ConfigurationError(
            f"{moment.isoformat()} is in the future (it is {now.astimezone(moment.tzinfo).isoformat('T', 'seconds')})",
            next_step="Name a moment that is over, or restore 'latest'",
        )
    return moment


def _time_of_day(clock: time, now: datetime) -> datetime:
    today = now.astimezone(clock.tzinfo)
    moment = datetime.combine(today.date(), clock, tzinfo=clock.tzinfo or today.tzinfo)
    return moment if moment <= now else moment - timedelta(days=1)
