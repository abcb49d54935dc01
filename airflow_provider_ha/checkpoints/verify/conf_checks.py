"""Checks of the conf pinned in the offset log: whether the release can read it and has its codec.

Invariant: a start reads only the newest planned entry. A bad older entry only prevents a restore to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.checkpoints.format.layout import OFFSETS
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry
from airflow_provider_ha.checkpoints.format.pinned_conf import CODEC, PROVIDER, conf_refusals, is_codec, time_refusals
from airflow_provider_ha.checkpoints.format.rocksdb import changelogs_used
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings, Reason
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness
from airflow_provider_ha.checkpoints.verify.subject import Subject


_EXPECTED = "the query's conf as pinned by Spark"


def check_conf(subject: Subject, findings: Findings) -> None:
    """Report every entry with pinned conf that the release cannot read."""
    planned = subject.logs.progress.planned
    for batch, entry in sorted(subject.logs.offsets.items()):
        for lacks in conf_lacks(subject, entry):
            blocks = batch == planned
            findings.add(Finding(lacks.code, lacks.path, batch, lacks.found, _EXPECTED, blocks=blocks))


def conf_lacks(subject: Subject, entry: OffsetsEntry) -> list[Reason]:
    """Return the reasons why a start cannot use the conf pinned in *entry*."""
    path = f"{OFFSETS}/{entry.batch}"
    pinned = repr(entry.metadata.get("conf"))
    known = subject.refused_conf.get(pinned)
    if known is None:
        known = [*conf_refusals(entry.metadata, subject.release), *_codec(subject, entry)]
        subject.refused_conf[pinned] = known
    found = [*time_refusals(entry.metadata), *known]
    return [Reason(Code.CONF_REFUSED, path, "; ".join(found))] if found else []


def _codec(subject: Subject, entry: OffsetsEntry) -> Iterator[str]:
    """Yield problems with the codec. Spark creates it when it opens state compressed with it."""
    name = entry.conf.get(CODEC)
    if not isinstance(name, str) or is_codec(name) or subject.kind is not Statefulness.STATEFUL:
        return
    # RocksDB uses it only to compress its changelogs.
    if "RocksDB" not in entry.conf.get(PROVIDER, "") or any(map(changelogs_used, subject.reader.stores())):
        yield f"its {CODEC} is {name!r}, which is not a Spark codec"
