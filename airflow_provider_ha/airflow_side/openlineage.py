"""OpenLineage of a run: the events of its task, and parent and transport in its driver's conf.

OpenLineage's listener collects facets in a forked process, which must not open a ZooKeeper session. So a task with a
run reads the run's lineage while its own session is open, and the listener finds the result. Without the provider, or
with OpenLineage disabled, the task reads no lineage.

Invariants:

* A failure of lineage never fails a task, and never prevents the start of a job.
* Logs never quote the configuration of OpenLineage, because it may contain a key.
* Secrets never reach the graph of a job, which outlives each key.

The injected conf comes from the OpenLineage provider. Without the provider the conf stays unchanged, and the log says
so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import conf as airflow_conf
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.options.conf import counted, secrets_in
from airflow_provider_ha.redaction import redact


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.run_lineage import RunLineage


log = logging.getLogger(__name__)


def is_active() -> bool:
    """Return whether the OpenLineage provider is installed and sends events; false for an unreadable configuration."""
    try:
        from airflow.providers.openlineage import conf  # noqa: PLC0415  # optional

        return not conf.is_disabled()
    except ImportError:
        return False
    except Exception as error:  # noqa: BLE001
        log.warning("OpenLineage gets no event, because its configuration cannot be read: %s", reason_of(error))
        return False


def reason_of(error: Exception) -> str:
    """Return a loggable reason; of a foreign error only its type, because its message may quote the transport."""
    if isinstance(error, HaError):
        return redact(str(error))
    return f"{type(error).__name__}. Correct [openlineage] in Airflow's configuration."


class LineageMixin:
    """Mixin of the operators that OpenLineage's listener reads; not for DAGs."""

    job_id: str
    log: Any
    _known_lineage: RunLineage | None = None

    def get_openlineage_facets_on_start(self) -> Any:
        """Return the lineage before the task is executed: its job and its request."""
        return self._operator_lineage()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:  # noqa: ARG002  # the listener's signature
        """Return the lineage at the end of the task: its run, the run's origin, inputs and outputs."""
        return self._operator_lineage()

    def learn_lineage(self, client: HaClient, run: int, context: Any = None) -> None:
        """Read the lineage of the run, for later events.

        :param context: Context of a task that continues to wait, maybe for months: lineage with an input or output is
            sent immediately, in an event ``RUNNING``.
        """
        if not is_active():
            return
        try:
            self._known_lineage = client.job(self.job_id).lineage(run)
            if context is not None and (self._known_lineage.inputs or self._known_lineage.outputs):
                self._send_running(context)
        except Exception as error:  # noqa: BLE001
            self.log.warning(
                "OpenLineage events of run %d of job %s are not sent: %s", run, self.job_id, reason_of(error)
            )

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
        from airflow_provider_ha.airflow_side.openlineage_facets import operator_lineage  # noqa: PLC0415  # optional

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


Inject = Callable[[dict[str, str], Any], dict[str, str]]
_SECTION = "openlineage"
_SETTINGS = {"parent_job": "spark_inject_parent_job_info", "transport": "spark_inject_transport_info"}


def lineage_conf(operator: Any, context: Any, conf: Mapping[str, str] | None) -> dict[str, str]:
    """Return the conf that names the task to OpenLineage's listener in Spark.

    Airflow's ``[openlineage] spark_inject_parent_job_info`` and ``spark_inject_transport_info`` enable it.

    :param conf: The user's conf; a parent or a transport in it stays.
    """
    try:
        return _lineage_conf(operator, context, conf)
    except Exception as error:  # noqa: BLE001
        operator.log.warning("OpenLineage information could not be injected: %s", reason_of(error))
        return {}


def _lineage_conf(operator: Any, context: Any, conf: Mapping[str, str] | None) -> dict[str, str]:
    wanted = [name for name, setting in _SETTINGS.items() if _is_enabled(operator, setting)]
    if not wanted:
        return {}
    try:
        injectors = _injectors()
    except ImportError:
        operator.log.warning(
            "OpenLineage information is to be injected into the Spark conf, but the OpenLineage provider is not "
            "installed, so the job runs without it. Install airflow-provider-ha[openlineage]."
        )
        return {}
    given = dict(conf or {})
    found: dict[str, str] = {}
    for name in wanted:
        try:
            injected = injectors[name](given, context)
        except Exception as error:  # noqa: BLE001  # a lineage that fails must not keep a stream from starting
            operator.log.warning("OpenLineage information (%s) could not be injected: %s", name, reason_of(error))
            continue
        found |= {key: str(value) for key, value in injected.items() if key not in given}
    if secret := secrets_in(found):
        operator.log.warning(
            "The OpenLineage transport is not injected, because it may contain a secret (%s), which would stay in "
            "the job's graph after the key was replaced. Configure it on the hosts of the drivers, in "
            "spark-defaults.conf or openlineage.yml.",
            ", ".join(secret),
        )
        found = counted(found, secret)
    return found


def _is_enabled(operator: Any, option: str) -> bool:
    try:
        return airflow_conf.getboolean(_SECTION, option, fallback=False)
    except Exception as error:  # noqa: BLE001
        operator.log.warning(
            "[%s] %s in Airflow's configuration counts as False, because it cannot be read: %s",
            _SECTION,
            option,
            reason_of(error),
        )
        return False


def _injectors() -> dict[str, Inject]:
    """Return the provider's injecting functions, under the public name in common-compat, which the provider requires.

    :raises ImportError: The provider is not installed.
    """
    import airflow.providers.openlineage  # noqa: F401, PLC0415  # without it the following only warns
    from airflow.providers.common.compat.openlineage.utils.spark import (  # noqa: PLC0415  # optional
        inject_parent_job_information_into_spark_properties,
        inject_transport_information_into_spark_properties,
    )

    return {
        "parent_job": inject_parent_job_information_into_spark_properties,
        "transport": inject_transport_information_into_spark_properties,
    }
