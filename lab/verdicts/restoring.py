"""What Spark is started from: a damaged copy as it stands, or what a restore of it to one batch makes."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import fork
from lab.verdicts.cases import Case
from lab.verdicts.damages import NOTHING_LEFT
from lab.verdicts.steps import NothingToDamageError, Step, apply
from lab.verdicts.verdicts import verdict


def given(case: Case, copy: Path) -> bool:
    """Make what Spark is started from at *copy*; return whether the package restored it.

    A batch of the restorable list is restored as the package does it. For any other one the proof itself takes the
    logs back, and removes the state above.

    :raises NothingToDamageError: The release wrote no such file.
    :raises HaError: The batch is on the list, and was not restored.
    """
    if not case.damage.restored:
        case.damaged(copy)
        return False
    before = case.damaged(copy.with_name(f"{copy.name}-before"))
    if is_listed(case, before):
        fork(before, copy, batch=case.newest, keep_planned=False, copy=True)
        shutil.rmtree(before)
        return True
    before.rename(copy)
    apply(copy, [Step("rewind-to", more=(case.newest,))])
    with suppress(NothingToDamageError):
        apply(copy, [NOTHING_LEFT])
    return False


def is_listed(case: Case, damaged: Path) -> bool:
    """Whether the batch of *case* is on the restorable list of the damaged copy."""
    return verdict(case, damaged)[0] == "yes"
