"""A deterministic fake of a ZooKeeper ensemble, for tests of what uses a :class:`Coordinator`.

:class:`FakeEnsemble` is where to begin. Actors that take turns are in
:mod:`airflow_provider_ha.testing.fake.schedule`, the one module that needs ``greenlet``.
"""

from airflow_provider_ha.testing.fake.coordinator import FakeCoordinator
from airflow_provider_ha.testing.fake.ensemble import Accepted, FakeEnsemble
from airflow_provider_ha.testing.fake.faults import Fault, Outcome


__all__ = ["Accepted", "FakeCoordinator", "FakeEnsemble", "Fault", "Outcome"]
