"""State above what the committed batch needs: left by a batch that was not finished, or by an older timeline.

Spark is started three times on each copy, with a new file each: a stale snapshot is loaded by a later start only.
"""

from __future__ import annotations

from itertools import product

from lab.verdicts.damages import COUNTS, IN_FLIGHT, JOINS, JOINS_V3, REWIND, SNAPSHOTS, Damage
from lab.verdicts.steps import Step
from tests.support.releases.corpus import RESTARTS


# What each shape writes for one version.
_DELTAS, _SNAPSHOTS = ("delta", "changelog"), ("snapshot", "zip")
_CONTENT = {
    "whole": None,
    "halved": ("halve", "drop"),
    "halved, sums kept": ("halve", "keep"),
    "emptied": ("empty", "drop"),
    "emptied, sums kept": ("empty", "keep"),
}
_WRITES = {
    "hdfs-snapshots": ("delta", "snapshot"),
    "rocksdb1": ("zip",),
    "rocksdb1-snapshots": ("changelog", "zip"),
    "rocksdb2": ("zip",),
    "rocksdb2-snapshots": ("changelog", "zip"),
}


def stale_damages() -> list[Damage]:
    """Return the damages."""
    made = []
    for shape, kinds in _WRITES.items():
        choices = [kinds] if len(kinds) == 1 else [*((kind,) for kind in kinds), kinds]
        for chosen, content in product(choices, _CONTENT):
            if content.endswith("kept") and (len(chosen) < len(kinds) or shape == "rocksdb2-snapshots"):
                continue
            made += [_damage(shape, chosen, content, "1", open_batches) for open_batches in (0, 1)]
        for chosen, above, open_batches in product(choices, ("2", "1,2"), (0, 1)):
            made.append(_damage(shape, chosen, "whole", above, open_batches))
        made += [_damage(shape, chosen, "halved", "2", 0) for chosen in choices]
    # As a kill leaves it, and as a user leaves it who takes the logs back.
    name, steps = "batch in flight, all its state there", (IN_FLIGHT,)
    made.append(Damage(name, (*COUNTS, *SNAPSHOTS), steps, starts=2, open=1))
    made.append(Damage(name, (*JOINS, *JOINS_V3), steps, open=1))
    made += [
        Damage(f"logs taken back by {count}, all state left", (*COUNTS, *SNAPSHOTS), (rewind,), RESTARTS, count)
        for count, rewind in REWIND.items()
    ]
    return made


def _damage(shape: str, kinds: tuple[str, ...], content: str, above: str, open_batches: int) -> Damage:
    # The batch in flight writes the version one above; more lies above only when batches were taken out of the logs.
    rewound = max(int(one) for one in above.split(",")) - open_batches
    steps = [REWIND[rewound]] if rewound else []
    steps += [IN_FLIGHT] * open_batches
    steps.append(Step("left", more=(above, ",".join(kinds))))
    changed = _CONTENT[content]
    for version, kind in product(above.split(","), kinds):
        if changed is not None:
            steps.append(Step(changed[0], f"state/0/*/{{V+{version}}}[._]*{kind}", sums=changed[1]))
    what = " and ".join("delta" if kind in _DELTAS else "snapshot" for kind in kinds)
    where = "batch in flight" if open_batches else "nothing in flight"
    name = f"{what} {above.replace(',', ' and ')} above, {content}, {where}"
    # The first start writes the version one above, and the start after that loads it.
    starts = max(int(one) for one in above.split(",")) + 1
    return Damage(name, (shape,), tuple(steps), starts, rewound, open_batches)
