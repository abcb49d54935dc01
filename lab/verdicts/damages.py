"""What is done to recorded checkpoints: a kind is a row of the table of agreement, with the shapes it is done to."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lab.verdicts.steps import Step
from tests.support.releases.corpus import RESTARTS


@dataclass(frozen=True)
class Damage:
    """One damage.

    :param name: Unique; what it is done to comes first.
    :param shapes: What it is done to.
    :param steps: How; nothing for a checkpoint that is left as it stands.
    :param starts: How often Spark is started on the same copy, with one new file each.
    :param rewound: How many batches are taken out of the logs: the input files of those are not there any more.
    :param open: How many of the planned batches lack their commit: a start executes the newest again.
    :param restored: Whether the damaged checkpoint is restored to the batch *rewound* before its newest, and Spark
        started from that.
    """

    name: str
    shapes: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    starts: int = 1
    rewound: int = 0
    open: int = 0
    restored: bool = False

    @property
    def control(self) -> str:
        """The damage whose answer says what is right: the same restart of a checkpoint with nothing wrong."""
        return f"whole, rewound {self.rewound}, open {min(self.open, 1)}"

    @property
    def digest(self) -> str:
        """Names what is done: an answer of Spark belongs to it."""
        how = (self.steps, self.starts, self.rewound, self.open)
        told = repr((*how, "restored") if self.restored else how)
        return hashlib.sha256(told.encode()).hexdigest()[:8]


IN_FLIGHT = Step("remove", "commits/{C}")
HDFS, ROCKSDB1, ROCKSDB1_LOG = "hdfs", "rocksdb1", "rocksdb1-changelog"
ROCKSDB2, ROCKSDB2_LOG = "rocksdb2", "rocksdb2-changelog"
COUNTS = (HDFS, ROCKSDB1, ROCKSDB1_LOG, ROCKSDB2, ROCKSDB2_LOG)
SNAPSHOTS = ("hdfs-snapshots", "rocksdb1-snapshots", "rocksdb2-snapshots")
JOINS = ("hdfs-join", "rocksdb1-join", "rocksdb2-join")
JOINS_V3 = ("rocksdb1-join-v3", "rocksdb2-join-v3")
PROCESSORS = ("rocksdb1-processor", "rocksdb2-processor")
CHAINS = ("hdfs-chain", "rocksdb1-chain", "rocksdb2-chain")
ASYNC = ("async", "async-purged")
ENDLESS = (*ASYNC, "continuous")
PURGED = ("hdfs-purged", "rocksdb1-purged")
OTHERS = ("hdfs-dedup", "hdfs-windows", "hdfs-global", "hdfs-limit")
FEW = ("stateless", HDFS, ROCKSDB2)
SOME = ("stateless", *COUNTS, "hdfs-join", "rocksdb2-join-v3", "rocksdb2-processor", "hdfs-chain", "hdfs-purged")
EVERY = ("stateless", *COUNTS, *SNAPSHOTS, *JOINS, *JOINS_V3, *PROCESSORS, *CHAINS, *PURGED, *OTHERS)


REWIND = {count: Step("rewind", more=(count,)) for count in (1, 2)}
NOTHING_LEFT = Step("left", more=("", ""))


def controls() -> list[Damage]:
    """Return the checkpoints with nothing wrong: as they stand, with a batch in flight, and properly rewound."""
    shapes = (*COUNTS, *SNAPSHOTS)
    once = tuple(shape for shape in EVERY if shape not in shapes)
    made = []
    for restarted, starts in ((shapes, RESTARTS), (once, 1)):
        made += [
            Damage("whole, rewound 0, open 0", restarted, starts=starts),
            Damage("whole, rewound 0, open 1", restarted, (IN_FLIGHT, NOTHING_LEFT), starts, open=1),
        ]
    made.append(Damage("whole, rewound 0, open 0", ENDLESS))
    for count, rewind in REWIND.items():
        made += [
            Damage(f"whole, rewound {count}, open 0", shapes, (rewind, NOTHING_LEFT), RESTARTS, count),
            Damage(f"whole, rewound {count}, open 1", shapes, (rewind, IN_FLIGHT, NOTHING_LEFT), RESTARTS, count, 1),
        ]
    return made
