"""Which tasks had followed a run: their claims go with it, notes about them stay (``jobs.removed_runs``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, Op
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.presence import LIVE
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.jobs.watchers import FOLLOWED, FollowedRun
from airflow_provider_ha.names import safe_segment


_AT_ONCE = 500
_USE = "#"  # request#2 is the second run of one request


@dataclass(slots=True)
class Followers:
    """The claims in ``watchers`` as they were read, and the runs that keep them.

    :param claims: Name of a claim -> its node.
    :param notes: Name of a claim -> the node that says which run it follows.
    :param followed: Name of a claim -> that run.
    :param runs: Number of a run -> the request that made it, of all runs that are there.
    """

    claims: dict[str, Node] = field(default_factory=dict)
    notes: dict[str, Node] = field(default_factory=dict)
    followed: dict[str, int] = field(default_factory=dict)
    runs: dict[int, str] = field(default_factory=dict)

    def of(self, run: Run) -> tuple[list[str], list[Op]]:
        """Return which requests led to a run and to no other one that is there, and the removal of their claims."""
        others = {safe_segment(request) for number, request in self.runs.items() if number != run.number}
        own = request_of(run)
        # Of a request that made a run and follows another one, the newer of them counts.
        follows = self.followed.get(safe_segment(own), 0)
        led = {safe_segment(own): own} if follows < run.number or follows not in self.runs else {}
        led |= {name: name for name, number in self.followed.items() if number == run.number}
        led = {name: request for name, request in led.items() if name not in others}
        nodes = [place[name] for name in led for place in (self.claims, self.notes) if name in place]
        return list(led.values()), [Delete(node.path, node.version) for node in nodes]

    def forget(self, run: Run) -> None:
        """Note that a run is gone, and what followed it."""
        self.runs.pop(run.number, None)
        self.followed = {name: number for name, number in self.followed.items() if number != run.number}


def request_of(run: Run) -> str:
    """Return the request that made a run, whether by its first use or a later one."""
    return run.request_id.partition(_USE)[0]


def read_followers(coordinator: Coordinator, paths: JobPaths) -> Followers:
    """Read every claim of the job, and which request made each of its runs."""
    found = Followers()
    runs = RunStore(coordinator, paths)
    found.runs = {number: request_of(run) for number, run in runs.runs(runs.numbers()).items()}
    names = [name for name in coordinator.children(paths.watchers) if not name.startswith(LIVE)]
    for start in range(0, len(names), _AT_ONCE):
        part = {f"{paths.watchers}/{name}": name for name in names[start : start + _AT_ONCE]}
        for path, node in coordinator.read(Reads(tuple(part))).nodes.items():
            if node is not None:
                _sort(found, part[path], node)
    return found


def _sort(found: Followers, name: str, node: Node) -> None:
    if not name.endswith(FOLLOWED):
        found.claims[name] = node
        return
    try:
        record = FollowedRun.from_bytes(node.data, source=f"znode {node.path}")
    except RecordCorruptError:
        found.claims[name] = node  # the claim of a task that is called like that, or a node of another program
        return
    task = name.removesuffix(FOLLOWED)
    found.notes[task], found.followed[task] = node, record.run
