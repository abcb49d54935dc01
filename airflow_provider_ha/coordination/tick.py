"""The servers' tick, as far as a client can determine it.

The protocol does not contain it. The four-letter word ``conf`` does, where the servers allow that word: by default they
do not. Otherwise the operator of the ensemble checks it, as the docs describe.
"""

from __future__ import annotations

import re

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.raw_socket import addresses, open_socket


_TICK = re.compile(rb"^tickTime=(\d+)", re.MULTILINE)
_LONGEST_ANSWER = 64 * 1024


def server_tick(config: HaConfig, *, timeout: float = 1.0) -> float | None:
    """Return the longest tick of all servers, seconds; ``None`` when no server states it.

    :param timeout: Seconds for each server.
    """
    found = [_TICK.search(_ask(config, address, timeout)) for address in addresses(config)]
    return max((int(match[1]) / 1000 for match in found if match), default=None)


def check_tick(config: HaConfig) -> None:
    """Assert that the servers' tick fits the heartbeats, when they state it.

    :raises ConfigurationError: It does not.
    """
    tick = server_tick(config)
    if tick is not None:
        config.timings.check_tick(tick)


def _ask(config: HaConfig, address: tuple[str, int], timeout: float) -> bytes:
    answer = b""
    try:
        with open_socket(config.tls, address, timeout) as connection:
            connection.sendall(b"conf")
            while len(answer) < _LONGEST_ANSWER and (part := connection.recv(4096)):
                answer += part
    except OSError:
        return answer  # a closed word may also end in a closed connection
    return answer
