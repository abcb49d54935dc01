"""The engines by name: a job's graph and its submissions name theirs, and no process uses its own default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.engines.engine import Engine
from airflow_provider_ha.engines.local import LocalEngine
from airflow_provider_ha.engines.standalone import StandaloneEngine
from airflow_provider_ha.errors import ConfigurationError


_ENGINES: Mapping[str, Callable[[HaConfig], Engine]] = {
    LocalEngine.name: LocalEngine,
    StandaloneEngine.name: StandaloneEngine,
}


class Engines:
    """The engines of this process.

    :param known: Name -> engine.
    """

    def __init__(self, known: Mapping[str, Engine]) -> None:
        self._known = dict(known)

    @classmethod
    def of(cls, config: HaConfig) -> Engines:
        """Return the engines of the package, each configured with its options of the connection.

        :raises ConfigurationError: The connection has options for an engine that is not known, or that it cannot use.
        """
        if unknown := sorted(config.engines.keys() - _ENGINES.keys()):
            raise ConfigurationError(
                f"the connection has options for engines that are not known here: {unknown}",
                next_step=f"Name one of {sorted(_ENGINES)} in the connection's field 'engines'",
            )
        return cls({name: engine(config) for name, engine in _ENGINES.items()})

    def get(self, name: str) -> Engine:
        """Return the engine of a submission or of a graph.

        :raises ConfigurationError: This process has no engine of that name.
        """
        if name not in self._known:
            raise ConfigurationError(
                f"engine {name!r} is not known here",
                next_step=f"Use one of {sorted(self._known)}, or a release of airflow-provider-ha that has it",
            )
        return self._known[name]

    @classmethod
    def only(cls, engine: Engine) -> Engines:
        """Return engines that are one, under its own name."""
        return cls({engine.name: engine})
