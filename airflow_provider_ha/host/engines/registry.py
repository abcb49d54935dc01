"""Engines by name. A job's graph and its submissions name their engine, and no process substitutes its own default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.engine import Engine
from airflow_provider_ha.host.engines.local import LocalEngine
from airflow_provider_ha.host.engines.standalone import StandaloneEngine
from airflow_provider_ha.host.engines.table import ENTRIES, LOCAL, STANDALONE


_ENGINES: Mapping[str, Callable[[HaConfig], Engine]] = {LOCAL.name: LocalEngine, STANDALONE.name: StandaloneEngine}


class Engines:
    """Engines of this process.

    :param known: Name -> engine.
    """

    def __init__(self, known: Mapping[str, Engine]) -> None:
        self._known = dict(known)

    @classmethod
    def of(cls, config: HaConfig) -> Engines:
        """Return the engines of the package, each configured with its options from the connection.

        :raises ConfigurationError: The connection has options for an unknown engine, or options that it cannot use.
        """
        if unknown := sorted(config.engines.keys() - ENTRIES.keys()):
            raise ConfigurationError(
                f"the connection has options for engines that are not known here: {unknown}",
                next_step=f"Use only {sorted(ENTRIES)} in the connection's field 'engines'",
            )
        for name, options in config.engines.items():
            ENTRIES[name].check_options(options)
        return cls({name: engine(config) for name, engine in _ENGINES.items()})

    def get(self, name: str) -> Engine:
        """Return the engine of a submission or of a graph.

        :raises ConfigurationError: This process has no engine with this name.
        """
        if name not in self._known:
            raise ConfigurationError(
                f"engine {name!r} is not known here",
                next_step=f"Choose from {sorted(self._known)}, or use a release of airflow-provider-ha that has it",
            )
        return self._known[name]

    def runs_here(self, name: str) -> bool:
        """Return whether drivers of an engine run on the submitting host; ``False`` for an engine not known here."""
        engine = self._known.get(name)
        return engine is not None and engine.facts.runs_here

    def cluster_options(self, config: HaConfig, name: str) -> dict[str, str]:
        """Return the connection's options that a job graph keeps: empty for an engine whose paths differ by host.

        :raises ConfigurationError: As :meth:`get`.
        """
        return {} if self.get(name).facts.runs_here else dict(config.engines.get(name, {}))

    @classmethod
    def only(cls, engine: Engine) -> Engines:
        """Return engines with one member, under its own name."""
        return cls({engine.name: engine})
