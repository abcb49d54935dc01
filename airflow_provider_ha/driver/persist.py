"""Repeat a fenced write until it is known to be stored: for completed actions of a driver that must not be lost.

Invariant: only the lease ends the attempts. A leader works through an interrupted connection (contract 3), so a late or
lost answer is no reason to end a healthy driver; once the lease is over, the write itself raises.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from airflow_provider_ha.errors import LeadershipLostError, NodeExistsError, NotConnectedError, OutcomeUnknownError


log = logging.getLogger(__name__)
PAUSE_SECONDS = 0.2


def persist(
    write: Callable[[], object], *, written: Callable[[], bool], lease_left: Callable[[], float], what: str
) -> None:
    """Call *write* until it returns, or until *written* finds its effect.

    :param write: A transaction under the leadership. It is sent again after an unknown outcome, so its second
        application must be harmless, or be rejected because a node exists.
    :param written: Reads back whether an earlier attempt was applied.
    :param lease_left: Remaining seconds of the lease. Reads also fail while ZooKeeper is away, so that *write* may
        never reach the transaction that would fail.
    :param what: For the log and the error.
    :raises LeadershipError: The lease ran out, or another epoch owns the job.
    :raises HaError: Any other error of *write*; the nodes are unchanged.
    """
    unsure = False
    while True:
        try:
            if unsure and written():
                return
            write()
        except OutcomeUnknownError as error:  # a retry is a try in a loop
            unsure = True
            log.warning("%s: no answer yet, reading back: %s", what, error)
        except NotConnectedError as error:
            log.warning("%s: not connected, trying again: %s", what, error)
        except NodeExistsError:
            if not (unsure and written()):
                raise
            return
        else:
            return
        if lease_left() <= 0:
            raise LeadershipLostError(f"{what}: the lease ran out before ZooKeeper had it")
        time.sleep(PAUSE_SECONDS)
