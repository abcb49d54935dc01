"""Client of a standalone master's REST server (``spark.master.rest.enabled``), in the terms of its protocol.

A master answers 200 even when it refuses: the field ``success`` decides. With several masters, only the active one
takes submissions and knows drivers; the others answer that they are not alive.

Invariant: a request without an answer is never reported as a refusal. It may have created a driver.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import urllib3

from airflow_provider_ha import __version__


CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0  # a master that recovers from its ZooKeeper answers late
_HEADERS = {"Content-Type": "application/json;charset=UTF-8"}
_CLIENT = f"airflow-provider-ha-{__version__}"
_NOT_ACTIVE = re.compile(r"Current state is not alive: (\w+)")
_NEVER_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.NameResolutionError,
    urllib3.exceptions.LocationValueError,
)


class MasterUnreachableError(Exception):
    """Request that never reached the master, and so has had no effect."""


class AnswerLostError(Exception):
    """Request that was sent without getting an answer: the master may have executed it."""


@dataclass(frozen=True, slots=True)
class MasterResponse:
    """Answer of a master.

    :param success: The master executed the request, or knows the requested driver.
    :param message: Message of the master, without a stack trace.
    :param driver: The master's id of the driver.
    :param state: State of the driver: ``SUBMITTED``, ``RUNNING``, ``FINISHED``, ...
    :param worker: ``host:port`` of the worker that runs it.
    :param spark: Release of the master.
    """

    success: bool
    message: str = ""
    driver: str = ""
    state: str = ""
    worker: str = ""
    spark: str = ""

    @property
    def standby(self) -> str:
        """State of a master that is not the active one (``STANDBY``, ``RECOVERING``); empty for the active one."""
        found = _NOT_ACTIVE.search(self.message)
        return found.group(1) if found else ""


class MasterRest:
    """Client of a master's REST server. Holds no connection; safe in any thread.

    :param url: ``http://host:port``.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def create(
        self, *, main_class: str, arguments: list[str], properties: dict[str, str], environment: dict[str, str]
    ) -> MasterResponse:
        """Request a driver. Every call creates another one.

        :raises MasterUnreachableError: The request did not reach the master.
        :raises AnswerLostError: The request was sent, and may have created a driver.
        """
        body = {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": _CLIENT,
            "appResource": "",
            "mainClass": main_class,
            "appArgs": arguments,
            "sparkProperties": properties,
            "environmentVariables": environment,
        }
        return self._ask("POST", "create", body)

    def status(self, driver: str) -> MasterResponse:
        """Request the state of a driver; raises as :meth:`create` does."""
        return self._ask("GET", f"status/{driver}")

    def kill(self, driver: str) -> MasterResponse:
        """Request the end of a driver; raises as :meth:`create` does."""
        return self._ask("POST", f"kill/{driver}", {})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> MasterResponse:
        timeout = urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS)
        # A pool for each request: a kept connection may belong to a master that has since ended.
        with urllib3.PoolManager(num_pools=1, retries=False, timeout=timeout) as pool:
            try:
                answer = pool.request(
                    method,
                    f"{self.url}/v1/submissions/{path}",
                    body=None if body is None else json.dumps(body).encode(),
                    headers=_HEADERS,
                )
            except _NEVER_SENT as error:
                raise MasterUnreachableError(f"{self.url} cannot be reached ({_reason(error)})") from error
            except urllib3.exceptions.HTTPError as error:
                raise AnswerLostError(f"{self.url} did not answer ({_reason(error)})") from error
        return self._read(answer.data, answer.status)

    def _read(self, data: bytes, status: int) -> MasterResponse:
        try:
            said = json.loads(data)
            message = str(said.get("message") or "").partition("\n\tat ")[0]
        except (ValueError, AttributeError):
            raise AnswerLostError(f"{self.url} answers with {status}, and not as a master does") from None
        return MasterResponse(
            success=said.get("success") is True,
            message=_without_trace(message) or f"HTTP {status}",
            driver=str(said.get("submissionId") or ""),
            state=str(said.get("driverState") or ""),
            worker=str(said.get("workerHostPort") or ""),
            spark=str(said.get("serverSparkVersion") or ""),
        )


def _without_trace(message: str) -> str:
    """Return the message of an exception of the master, without its stack trace."""
    lines = [line for line in message.splitlines() if not line.startswith("\t")]
    return " ".join(lines).removeprefix("Exception from the cluster: ")


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2] or type(error).__name__
