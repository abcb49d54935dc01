"""Damaged checkpoints that are restored to the newest batch or to the one before: what the restorable list promises.

Where the list has the batch, Spark is started from what a restore makes of it; where it has not, from the same
checkpoint with its logs taken back to that batch.
"""

from __future__ import annotations

from dataclasses import replace

from lab.verdicts.damages import COUNTS, SNAPSHOTS, Damage


# By what they hit: files that every batch needs, that only the newest needs, and that only older ones need.
_CHOSEN = (
    "metadata removed",
    "newest offsets emptied",
    "offsets before the newest removed",
    "old offsets emptied",
    "newest commit emptied",
    "newest commit without last line",
    "commit before the newest emptied",
    "newest source entry emptied",
    "compacted source entries removed",
    "a path in the source log changed",
    "conf shuffle.partitions is 'two'",
    "partition 0 removed",
    "operator metadata removed",
    "delta removed",
    "delta halved",
    "older delta removed",
    "snapshot removed",
    "snapshot halved",
    "snapshot is a directory",
    "delta and snapshot removed",
    "every snapshot removed",
    "zip removed",
    "zip halved",
    "zip with a wrong hidden sum",
    "older zip removed",
    "table files removed",
    "table files halved",
    "zip and its changelog removed",
    "newest changelog removed",
    "newest changelog halved",
    "older changelog removed",
    "older changelog halved",
    "zips halved above their changelogs",
    "base of the changelogs removed",
)
_BACK = (0, 1)


def restored_damages(known: list[Damage]) -> list[Damage]:
    """Return the chosen ones of *known*, each restored."""
    made = []
    for damage in (one for one in known if one.name in _CHOSEN):
        shapes = tuple(shape for shape in damage.shapes if shape in (*COUNTS, *SNAPSHOTS))
        made += [
            replace(damage, name=f"{damage.name}, restored {back} back", shapes=shapes, rewound=back, restored=True)
            for back in _BACK
            if shapes
        ]
    return made
