"""The script's Spark application and its web UI, shown to people in the job's status."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Application:
    """One application of Spark.

    :param application_id: Spark's id; empty when the script has made no session.
    :param ui: URL of its web UI; empty without a UI.
    """

    application_id: str = ""
    ui: str = ""


class RunningApplication:
    """Called several times a second, it queries the JVM once for each context of the script."""

    def __init__(self) -> None:
        self._context: Any = None
        self._known = Application()

    def __call__(self) -> Application:
        """Return the application of the script; the last one once its session is stopped."""
        from pyspark import SparkContext  # pyspark is imported inside functions

        context = SparkContext._active_spark_context  # noqa: SLF001  # there is no public way that makes none
        if context is None or context is self._context:
            return self._known
        try:
            self._known = application_of(context)
        except Exception as error:  # noqa: BLE001  # any failure of py4j: a link is no reason to fail a status
            log.debug("Spark does not say where its web UI is: %s", error)
            return self._known
        self._context = context
        return self._known


def application_of(context: Any) -> Application:
    """Return the application of a pyspark context.

    Behind a reverse proxy the URL of the UI is the proxy's, which Spark's conf names.
    """
    conf, application_id = context.getConf(), str(context.applicationId)
    proxy = conf.get("spark.ui.reverseProxyUrl", "")
    if proxy and conf.get("spark.ui.reverseProxy", "false") == "true" and context.uiWebUrl:
        return Application(application_id, f"{proxy.rstrip('/')}/proxy/{application_id}")
    return Application(application_id, context.uiWebUrl or "")
