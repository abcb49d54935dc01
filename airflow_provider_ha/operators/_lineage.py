"""What operators tell OpenLineage of the run that they have submitted, restored or follow.

The listener asks in a process that it forks: there no session with ZooKeeper may be opened. So a task that has a run
reads what is known of it itself, while its own session is open, and the listener finds it. Without the provider, or
with OpenLineage disabled, nothing is read.

Invariants: nothing of it can fail a task; no log quotes what is configured for it, which may have a key.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import HaError
from airflow_provider_ha.redaction import redact


if TYPE_CHECKING:
    from airflow_provider_ha.control.administration.lineage import RunLineage
    from airflow_provider_ha.control.client import HaClient


log = logging.getLogger(__name__)


def is_active() -> bool:
    """Whether the OpenLineage provider is installed and sends events; not where its configuration cannot be read."""
    try:
        from airflow.providers.openlineage import conf  # noqa: PLC0415  # optional

        return not conf.is_disabled()
    except ImportError:
        return False
    except Exception as error:  # noqa: BLE001
        log.warning("OpenLineage gets no event, because its configuration cannot be read: %s", reason_of(error))
        return False


def reason_of(error: Exception) -> str:
    """Return what a log may say of an error: of one that is not ours the type, its words may quote the transport."""
    if isinstance(error, HaError):
        return redact(str(error))
    return f"{type(error).__name__}. Correct [openlineage] in Airflow's configuration."


class TellsLineage:
    """Mixin of the operators that OpenLineage's listener asks; not for DAGs."""

    job_id: str
    log: Any
    _known_lineage: RunLineage | None = None

    def get_openlineage_facets_on_start(self) -> Any:
        """Return what is known before the task is executed: its job, and what it asks for."""
        return self._operator_lineage()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  # the listener's signature
        """Return what is known at the end of the task: its run, what that started from, what it reads and writes."""
        return self._operator_lineage()

    def learn_lineage(self, client: HaClient, run: int, context: Any = None) -> None:
        """Read what is known of the run, for the events to come.

        :param context: Of a task that goes on waiting, maybe for months: what is known is sent at once, in an event
            ``RUNNING``, when that names any input or output.
        """
        if not is_active():
            return
        try:
            self._known_lineage = client.job(self.job_id).lineage(run)
            if context is not None and (self._known_lineage.inputs or self._known_lineage.outputs):
                self._send_running(context)
        except Exception as error:  # noqa: BLE001
            self.log.warning("OpenLineage is not told of run %d of job %s: %s", run, self.job_id, reason_of(error))

    def _send_running(self, context: Any) -> None:
        try:
            from airflow.providers.openlineage.api import emit_dataset_lineage  # noqa: PLC0415  # of newer providers
        except ImportError:
            return
        told = self._operator_lineage()
        emit_dataset_lineage(
            inputs=told.inputs,
            outputs=told.outputs,
            task_instance=context["ti"],
            additional_run_facets=told.run_facets,
            additional_job_facets=told.job_facets,
        )

    def _operator_lineage(self) -> Any:
        from airflow_provider_ha.operators._lineage_facets import operator_lineage  # noqa: PLC0415  # optional

        return operator_lineage(self.job_id, self._requested(), self._known_lineage)

    def _requested(self) -> dict[str, str]:
        found = {}
        for key, value in (
            ("requestedStart", getattr(self, "adopt", None) or getattr(self, "start_from", None)),
            ("requestedSourceJob", getattr(self, "source_job", None)),
        ):
            if value:
                text = value if isinstance(value, str) else ", ".join(f"{query}={at}" for query, at in value.items())
                found[key] = redact(text)
        return found
