"""A deterministic fake of a ZooKeeper ensemble, for tests of what uses a :class:`Coordinator`.

:class:`FakeEnsemble` is the entry point. Actors that take turns are in
:mod:`tests.support.fake.schedule`, the one module that needs ``greenlet``.
"""

from tests.support.fake.coordinator import FakeCoordinator
from tests.support.fake.ensemble import Accepted, FakeEnsemble
from tests.support.fake.faults import Fault, Outcome


__all__ = ["Accepted", "FakeCoordinator", "FakeEnsemble", "Fault", "Outcome"]
