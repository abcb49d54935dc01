"""The small language that damages are written in: data, so that an answer of Spark can name the damage it belongs to.

A step is an operation with a path. ``{C}`` stands for the newest committed batch, ``{L}`` for the newest planned one
and ``{V}`` for the version of the state after ``{C}``; ``{C-1}`` and ``{V+1}`` are what they look like. Each is asked
of the copy as the steps before have left it. ``*`` fits hidden files only when the dot is written.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import numbers
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree


class NothingToDamageError(Exception):
    """The release wrote no such file."""


@dataclass(frozen=True)
class Step:
    """One operation.

    :param act: Name of the operation, one of :data:`ACTS`.
    :param path: Where, relative to the checkpoint.
    :param more: What else the operation needs.
    :param sums: ``"drop"`` removes the checksums of a file that is changed, ``"keep"`` leaves them as they were.
    """

    act: str
    path: str = ""
    more: tuple[str | int | float, ...] = ()
    sums: str = "drop"


def apply(checkpoint: Path, steps: Sequence[Step]) -> None:
    """Do *steps* to a copy; raises :class:`NothingToDamageError` when a step finds no file."""
    for step in steps:
        if step.act in WHOLE:
            WHOLE[step.act](checkpoint, *step.more)
            continue
        found = _found(checkpoint, step.path)
        if not found:
            raise NothingToDamageError(step.path)
        for path in found:
            # First: a directory that is younger than all in it looks as if something was taken out of it.
            if step.sums == "drop" and step.act != "remove-alone":
                drop_sums(path)
            ACTS[step.act](path, *step.more)


def moved(checkpoint: Path) -> None:
    """Let operator metadata of version 2 name the schema files of this copy: it holds absolute paths."""
    here = f"file:{checkpoint}/state/"
    for path in checkpoint.glob("state/*/_metadata/v2/[0-9]*"):
        path.write_text(re.sub(r'file:[^"]*/checkpoint/state/', lambda _: here, path.read_text()))
        drop_sums(path)


def _found(checkpoint: Path, pattern: str) -> list[Path]:
    committed = max(numbers(LocalTree(checkpoint / "commits")), default=-1)
    values = {"C": committed, "L": max(numbers(LocalTree(checkpoint / "offsets")), default=-1), "V": committed + 1}
    filled = re.sub(r"\{([CLV])([+-]\d+)?\}", lambda found: str(values[found[1]] + int(found[2] or 0)), pattern)
    hidden = Path(filled).name.startswith(".")
    return sorted(path for path in checkpoint.glob(filled) if hidden or not path.name.startswith("."))


def drop_sums(path: Path) -> None:
    """Remove Hadoop's hidden checksum of a file, and Spark's own one."""
    for name in (f".{path.name}.crc", f"{path.name}.crc", f".{path.name}.crc.crc"):
        (path.parent / name).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _empty_folder(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def _halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _cut(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:-count])


def _cut_line(path: Path) -> None:
    path.write_text("\n".join(path.read_text().rstrip("\n").split("\n")[:-1]))


def _append(path: Path, text: str) -> None:
    path.write_bytes(path.read_bytes() + text.encode())


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _flip(path: Path, share: float) -> None:
    content = bytearray(path.read_bytes())
    content[min(int(len(content) * share), len(content) - 1)] ^= 0xFF
    path.write_bytes(content)


def _replace(path: Path, old: str, new: str) -> None:
    content = path.read_bytes()
    if old.encode() not in content:
        raise NothingToDamageError(f"{old} in {path.name}")
    path.write_bytes(content.replace(old.encode(), new.encode(), 1))


def _set_conf(path: Path, key: str, value: str) -> None:
    head, meta, *rest = path.read_text().split("\n")
    told = json.loads(meta)
    if key not in told.get("conf", {}):
        raise NothingToDamageError(key)
    told["conf"][key] = value
    path.write_text("\n".join([head, json.dumps(told, separators=(",", ":")), *rest]))


def _as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _wrong_hidden_sum(path: Path) -> None:
    hidden = path.parent / f".{path.name}.crc"
    if not hidden.exists():
        raise NothingToDamageError(hidden.name)
    content = bytearray(hidden.read_bytes())
    content[-1] ^= 0xFF
    hidden.write_bytes(content)


def _wrong_spark_sum(path: Path) -> None:
    told = json.loads(path.read_text())
    path.write_text(json.dumps(told | {"value": told["value"] ^ 1}))


def _rewind(checkpoint: Path, count: int) -> None:
    """Take the newest batches out of the logs."""
    last = max(numbers(LocalTree(checkpoint / "offsets"))) - count
    for log in ("offsets", "commits", "sources/0"):
        for path in list((checkpoint / log).iterdir()):
            if int(re.sub(r"\D", "", path.name) or -1) > last:
                path.unlink()


def _rewind_to(checkpoint: Path, batch: int) -> None:
    """Take every batch after *batch* out of the logs; the entries that are gone anyway do not count."""
    for log in ("offsets", "commits", "sources/0"):
        for path in list((checkpoint / log).glob("*")) + list((checkpoint / log).glob(".*")):
            if int(re.sub(r"\D", "", path.name) or -1) > batch:
                _remove(path)


def _purge(checkpoint: Path, offsets: int, commits: int) -> None:
    """Leave the newest entries of both logs, as Spark does when it purges."""
    for log, count in (("offsets", offsets), ("commits", commits)):
        for batch in sorted(numbers(LocalTree(checkpoint / log)))[:-count]:
            (checkpoint / log / str(batch)).unlink()
            (checkpoint / log / f".{batch}.crc").unlink(missing_ok=True)


def _left(checkpoint: Path, kept: str, kinds: str) -> None:
    """Leave of the state above the committed batch only some files.

    :param kept: How far above the version that is needed, ``"1,2"``; nothing is left when empty.
    :param kinds: Which files, ``"delta,snapshot"``.
    """
    needed = max(numbers(LocalTree(checkpoint / "commits")), default=-1) + 1
    versions, wanted = {needed + int(one) for one in kept.split(",") if one}, set(kinds.split(","))
    seen = set()
    for path in list((checkpoint / "state").rglob("*")):
        name = re.fullmatch(r"\.?(\d+)(?:_[0-9a-f-]+)?\.(delta|snapshot|zip|changelog)((?:\.crc)*)", path.name)
        if name is None or int(name[1]) <= needed:
            continue
        if int(name[1]) in versions and name[2] in wanted:
            seen.add((int(name[1]), name[2]))
        else:
            path.unlink()
    missing = {(version, kind) for version in versions for kind in wanted} - seen
    if missing:
        raise NothingToDamageError(f"state {sorted(missing)}")


ACTS: dict[str, Callable[..., None]] = {
    "remove": _remove,
    "remove-alone": _remove,
    "empty": _empty,
    "empty-folder": _empty_folder,
    "halve": _halve,
    "cut": _cut,
    "cut-line": _cut_line,
    "append": _append,
    "write": _write,
    "flip": _flip,
    "replace": _replace,
    "set-conf": _set_conf,
    "as-folder": _as_folder,
    "wrong-hidden-sum": _wrong_hidden_sum,
    "wrong-spark-sum": _wrong_spark_sum,
}
# Operations on the checkpoint as a whole: they have no path.
WHOLE: dict[str, Callable[..., None]] = {"rewind": _rewind, "rewind-to": _rewind_to, "purge": _purge, "left": _left}
