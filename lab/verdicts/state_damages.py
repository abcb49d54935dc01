"""Damage to the state that the committed batch needs, and to what describes it."""

from __future__ import annotations

from lab.verdicts.damages import (
    CHAINS,
    EVERY,
    HDFS,
    JOINS,
    JOINS_V3,
    OTHERS,
    PROCESSORS,
    PURGED,
    ROCKSDB1,
    ROCKSDB1_LOG,
    ROCKSDB2,
    ROCKSDB2_LOG,
    SOME,
    Damage,
)
from lab.verdicts.steps import Step


_STORE = "state/0/0"
_NEWEST = f"{_STORE}/{{V}}[._]*"
_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
_FLIPS = (0.05, 0.3, 0.6, 0.95)
_ZIPS = (ROCKSDB1, ROCKSDB2)
_BOTH = (*_ZIPS, "rocksdb1-snapshots", "rocksdb2-snapshots")
_LOGGED = (ROCKSDB1_LOG, ROCKSDB2_LOG)
_LOGGED_TWICE = ("rocksdb1-snapshots", "rocksdb2-snapshots")
_HDFS = (HDFS, "hdfs-snapshots", "hdfs-purged", "hdfs-global")
_STATEFUL = tuple(shape for shape in EVERY if shape != "stateless")


def state_topics() -> list[tuple[str, list[Damage]]]:
    """Return what is damaged, with the damages."""
    return [
        ("State directories", _of_directories()),
        ("Stores of a join", _of_joins()),
        ("What describes the state", _of_descriptions()),
        ("HDFS-backed state", _of_hdfs()),
        ("RocksDB", _of_rocksdb()),
        ("RocksDB's changelogs", _of_changelogs()),
    ]


def _of_directories() -> list[Damage]:
    return [
        Damage("all state removed", SOME, (Step("remove", "state"),)),
        Damage("all state emptied", (HDFS, ROCKSDB1, ROCKSDB2), (Step("empty-folder", "state"),)),
        Damage("first operator removed", _STATEFUL, (Step("remove", "state/0"),)),
        Damage("second operator removed", CHAINS, (Step("remove", "state/1"),)),
        Damage("operator emptied", (HDFS, ROCKSDB1, ROCKSDB2, *CHAINS), (Step("empty-folder", "state/0"),)),
        Damage("partition 0 removed", _STATEFUL, (Step("remove", "state/0/0"),)),
        Damage("partition 1 removed", _STATEFUL, (Step("remove", "state/0/1"),)),
        Damage("partition 0 emptied", (HDFS, ROCKSDB1, ROCKSDB2, *OTHERS), (Step("empty-folder", "state/0/0"),)),
    ]


def _of_joins() -> list[Damage]:
    made = []
    for store in _STORES:
        made += [
            Damage(f"{store} removed from partition 0", JOINS, (Step("remove", f"state/0/0/{store}"),)),
            Damage(f"{store} removed from every partition", JOINS, (Step("remove", f"state/0/*/{store}"),)),
            Damage(f"newest of {store} removed", JOINS, (Step("remove", f"state/0/0/{store}/{{V}}[._]*"),)),
        ]
    return made


def _of_descriptions() -> list[Damage]:
    made = []
    described = (HDFS, ROCKSDB2, "hdfs-join", *JOINS_V3, *PROCESSORS)
    files = {
        "operator metadata": "state/0/_metadata/metadata",
        "operator metadata of version 2": "state/0/_metadata/v2/*",
        "schema": "state/0/0/_metadata/schema",
        "schema of a store": "state/0/0/*/_metadata/schema",
        "schema file that operator metadata names": "state/0/_stateSchema/*/*",
    }
    for what, path in files.items():
        made += [
            Damage(f"{what} removed", described, (Step("remove", path),)),
            Damage(f"{what} emptied", described, (Step("empty", path),)),
            Damage(f"{what} halved", described, (Step("halve", path),)),
            Damage(f"{what} halved, sums kept", described, (Step("halve", path, sums="keep"),)),
        ]
    return [
        *made,
        Damage("operator metadata folder removed", described, (Step("remove", "state/0/_metadata"),)),
        Damage("schema folder removed", described, (Step("remove", "state/0/_stateSchema"),)),
        Damage("schema folder emptied", described, (Step("empty-folder", "state/0/_stateSchema/*"),)),
    ]


def _of_hdfs() -> list[Damage]:
    delta, snapshot = f"{_STORE}/{{V}}.delta", f"{_STORE}/{{V}}.snapshot"
    some, both = (*_HDFS, *OTHERS[:2]), ("hdfs-snapshots",)
    made = [
        *(Damage(f"delta flipped at {at:.0%}", _HDFS, (Step("flip", delta, (at,)),)) for at in _FLIPS),
        *(Damage(f"snapshot flipped at {at:.0%}", both, (Step("flip", snapshot, (at,)),)) for at in _FLIPS),
    ]
    for what, path, shapes in (("delta", delta, some), ("snapshot", snapshot, both)):
        made += [
            Damage(f"{what} removed", shapes, (Step("remove", path),)),
            Damage(f"{what} halved", shapes, (Step("halve", path),)),
            Damage(f"{what} halved, sums kept", shapes, (Step("halve", path, sums="keep"),)),
            Damage(f"{what} emptied", shapes, (Step("empty", path),)),
            Damage(f"{what} is a directory", shapes, (Step("as-folder", path),)),
            Damage(f"{what} cut in its end mark", shapes, (Step("cut", path, (5,)),)),
            Damage(f"{what} with bytes behind its end", shapes, (Step("append", path, ("garbage",)),)),
            Damage(f"{what} with a wrong hidden sum", shapes, (Step("wrong-hidden-sum", path, sums="keep"),)),
            Damage(f"{what} with a wrong sum of Spark", shapes, (Step("wrong-spark-sum", f"{path}.crc"),)),
        ]
    removed = Step("remove", snapshot)
    old_delta, every_delta = f"{_STORE}/{{V-1}}.delta", f"{_STORE}/*.delta"
    return [
        *made,
        Damage("snapshot removed, delta halved", both, (removed, Step("halve", delta))),
        Damage("delta and snapshot removed", both, (removed, Step("remove", delta))),
        Damage("older delta removed", (*some,), (Step("remove", old_delta),)),
        Damage("every delta removed", (*_HDFS,), (Step("remove", every_delta),)),
        Damage("every snapshot removed", both, (Step("remove", f"{_STORE}/*.snapshot"),)),
    ]


def _of_rocksdb() -> list[Damage]:
    newest, table = f"{_NEWEST}zip", f"{_STORE}/SSTs/*.sst"
    sums = f"{_NEWEST}zip.crc"
    purged = (PURGED[1],)
    return [
        *(Damage(f"zip flipped at {at:.0%}", _BOTH, (Step("flip", newest, (at,)),)) for at in _FLIPS),
        *(Damage(f"table files flipped at {at:.0%}", _BOTH, (Step("flip", table, (at,)),)) for at in _FLIPS),
        Damage("zip removed", (*_BOTH, *purged, *JOINS_V3, *PROCESSORS), (Step("remove", newest),)),
        Damage("zip halved", (*_BOTH, *purged), (Step("halve", newest),)),
        Damage("zip halved, sums kept", _BOTH, (Step("halve", newest, sums="keep"),)),
        Damage("zip emptied", (*_BOTH, *purged), (Step("empty", newest),)),
        Damage("zip is a directory", _BOTH, (Step("as-folder", newest),)),
        Damage("zip without its directory", _BOTH, (Step("cut", newest, (200,)),)),
        Damage("zip with a wrong hidden sum", _BOTH, (Step("wrong-hidden-sum", newest, sums="keep"),)),
        Damage("zip with a wrong sum of Spark", _BOTH, (Step("wrong-spark-sum", sums),)),
        Damage("zip with an empty sum of Spark", _BOTH, (Step("empty", sums),)),
        Damage("zip without a sum of Spark", _BOTH, (Step("remove", sums),)),
        Damage("older zip removed", _BOTH, (Step("remove", f"{_STORE}/{{V-1}}[._]*zip"),)),
        Damage("table files removed", (*_BOTH, *purged), (Step("remove", table),)),
        Damage("table files emptied", _BOTH, (Step("empty", table),)),
        Damage("table files halved", _BOTH, (Step("halve", table),)),
        Damage("table files with wrong hidden sums", _BOTH, (Step("wrong-hidden-sum", table, sums="keep"),)),
        Damage("table files without hidden sums", _BOTH, (Step("remove", f"{_STORE}/SSTs/.*.crc"),)),
        Damage("zip and its changelog removed", _LOGGED_TWICE, (Step("remove", f"{_NEWEST}"),)),
        Damage("every zip removed", _LOGGED_TWICE, (Step("remove", f"{_STORE}/*.zip"),)),
    ]


def _of_changelogs() -> list[Damage]:
    """Changelogs that Spark has to read, because no snapshot of their version is there."""
    made: list[Damage] = []
    # Where every version has a zip, the two newest are taken away: the third one is the base of two changelogs.
    bare = (Step("remove", f"{_STORE}/{{V}}[._]*zip"), Step("remove", f"{_STORE}/{{V-1}}[._]*zip"))
    for shapes, before in ((_LOGGED, ()), (_LOGGED_TWICE, bare)):
        for which, path in (("newest", f"{_NEWEST}changelog"), ("older", f"{_STORE}/{{V-1}}[._]*changelog")):
            made += [
                Damage(f"{which} changelog flipped at {at:.0%}", shapes, (*before, Step("flip", path, (at,))))
                for at in _FLIPS
            ]
            acts = {
                "removed": Step("remove", path),
                "halved": Step("halve", path),
                "halved, sums kept": Step("halve", path, sums="keep"),
                "emptied": Step("empty", path),
                "cut in its end mark": Step("cut", path, (5,)),
                "with bytes behind its end": Step("append", path, ("garbage",)),
                "with a wrong hidden sum": Step("wrong-hidden-sum", path, sums="keep"),
                "with a wrong sum of Spark": Step("wrong-spark-sum", f"{path}.crc"),
            }
            if before:
                continue
            made += [Damage(f"{which} changelog {what}", shapes, (act,)) for what, act in acts.items()]
        made.append(Damage("every changelog removed", shapes, (*before, Step("remove", f"{_STORE}/*.changelog"))))
    covered = tuple(Step("flip", f"{_NEWEST}changelog", (at,)) for at in (0.3, 0.6))
    made.append(Damage("changelog beside a whole zip flipped", _LOGGED_TWICE, covered))
    made.append(Damage("zips halved above their changelogs", _LOGGED_TWICE, (Step("halve", f"{_NEWEST}zip"),)))
    used = Step("remove", f"{_STORE}/{{V-2}}[._]*zip")
    made.append(Damage("base of the changelogs removed", _LOGGED_TWICE, (*bare, used)))
    return made
