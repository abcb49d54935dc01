"""Table of the engines: name, options, and the addresses by which a connection selects an engine.

Records, options of jobs and drivers read this table. It imports no engine, and only the folder ``host/engines`` writes
the name of one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ha.errors import ConfigurationError


PYTHON_OPTION = "python"  # interpreter of the driver and of its Python workers
SPARK_HOME_OPTION = "spark_home"  # directory with ``bin/spark-submit``
REST_PORT_OPTION = "rest_port"  # of the masters' REST servers; 6066 when left out
REST_SCHEME_OPTION = "rest_scheme"  # scheme of the REST servers: http or https
REST_MASTERS_OPTION = "rest_masters"  # host:port,host:port of the REST servers, if not those of the masters
CONFIG_FILE_OPTION = "config_file"  # path on every worker of the private file with the access to the cluster
_HOST_OPTIONS = frozenset({PYTHON_OPTION, SPARK_HOME_OPTION})  # describe the driver's host, for each engine


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEntry:
    """Facts about an engine that are valid without a configuration.

    :param name: Name in graphs, submissions, handles and connections.
    :param drivers: Place of its drivers, for people.
    :param options: Names of its options, in the connection and of a job.
    :param schemes: URL schemes of the masters whose cluster it runs drivers on.
    :param fields: Extra field of a connection of type ``spark`` -> option with its value.
    """

    name: str
    drivers: str
    options: frozenset[str] = _HOST_OPTIONS
    schemes: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cluster(self) -> bool:
        """Whether a master places its drivers, on resources that other applications of the cluster lack then."""
        return bool(self.schemes)

    def check_options(self, given: Collection[str]) -> None:
        """Refuse unknown options.

        :raises ConfigurationError: An option is unknown; the message has all unknown names.
        """
        if unknown := sorted(set(given) - self.options):
            raise ConfigurationError(
                f"the engine {self.name!r} has no options {unknown}", next_step=f"Use {sorted(self.options)}, or none"
            )


LOCAL = EngineEntry(name="local", drivers="the host of the task or command")
STANDALONE = EngineEntry(
    name="standalone",
    drivers="a worker of a standalone cluster",
    options=_HOST_OPTIONS | {REST_PORT_OPTION, REST_SCHEME_OPTION, REST_MASTERS_OPTION, CONFIG_FILE_OPTION},
    schemes=("spark://",),
    fields={"rest-scheme": REST_SCHEME_OPTION, "rest-port": REST_PORT_OPTION},
)
ENTRIES = {entry.name: entry for entry in (LOCAL, STANDALONE)}
DEFAULT_ENGINE = LOCAL.name  # for a job without an engine


def entry_of_cluster(master: str) -> EngineEntry:
    """Return the engine that runs drivers on the cluster of a master.

    :raises ConfigurationError: No engine supports the cluster.
    """
    for entry in ENTRIES.values():
        if master.startswith(entry.schemes):
            return entry
    schemes = " or ".join(scheme for entry in ENTRIES.values() for scheme in entry.schemes)
    raise ConfigurationError(
        f"no engine runs drivers on the cluster {master!r}",
        next_step=f"Use a cluster whose master begins with {schemes}, or deploy mode client",
    )


def options_of_connection(entry: EngineEntry, extra: Mapping[str, Any]) -> dict[str, str]:
    """Return an engine's options from the extra fields of a connection of type ``spark``. Pure."""
    return {option: str(extra[name]) for name, option in entry.fields.items() if extra.get(name) not in (None, "")}
