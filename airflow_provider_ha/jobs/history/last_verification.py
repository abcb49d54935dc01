"""The last verification of a job: what was judged, and what was found, for people.

Invariants: one object for each job, which the next verification replaces, so it stays small however many there are. No
decision depends on it. Like the XCom of a verification it has codes, names of files and reasons, and no content.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.errors import ObjectMissingError
from airflow_provider_ha.records import Model, Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.store import ObjectStore


MOST_FINDINGS = 100


class KeptFinding(Model):
    """One finding.

    :param code: Its code (page Findings of a verification).
    :param file: The file, below its query.
    :param blocks: Whether it keeps Spark from starting; ``None`` when that is not known.
    """

    code: str
    file: str
    blocks: bool | None = None


class LastVerification(Record):
    """``jobs/<job>/verification.json``: what the last verification of a checkpoint or savepoint of the job has found.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param taken_at: When that was taken.
    :param cut: Query -> N.
    :param at: When the verification was over.
    :param depth: ``quick``, ``full`` or ``prove``.
    :param spark_version: The release that it was judged for; empty for the installed one.
    :param restorable: Whether it can be restored; ``None`` when Spark was asked and gave no answer.
    :param problem: The first thing that keeps it from being restored; empty when nothing does.
    :param findings: At most ``MOST_FINDINGS``, those that keep Spark from starting first.
    :param findings_left_off: How many more there were.
    :param proofs: Query -> why Spark has not proven it; empty when it has.
    :param requested_by: The requester.
    """

    kind: ClassVar[str] = "last-verification"

    job_id: str
    source: str
    taken_at: datetime
    cut: dict[str, int]
    at: datetime
    depth: str
    spark_version: str = ""
    restorable: bool | None
    problem: str = ""
    findings: tuple[KeptFinding, ...] = ()
    findings_left_off: int = 0
    proofs: dict[str, str] = {}
    requested_by: str


def write_last_verification(store: ObjectStore, keys: JobKeys, found: LastVerification) -> None:
    """Keep a verification in the place of the one before it.

    :raises StorageUnavailableError: It may or may not be kept.
    """
    store.write(keys.last_verification, found.to_bytes())


def read_last_verification(store: ObjectStore, keys: JobKeys) -> LastVerification | None:
    """Return the last verification; ``None`` when there was none.

    :raises RecordCorruptError: It is not what was written.
    :raises StorageUnavailableError: It could not be read.
    """
    try:
        return LastVerification.from_bytes(store.read(keys.last_verification), source=keys.last_verification)
    except ObjectMissingError:
        return None
