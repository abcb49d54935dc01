"""Today's verdicts against Spark's recorded answers, on recordings that lie in the repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.verdicts.answers import FOLDER, Line, read
from lab.verdicts.cases import Case, cases
from lab.verdicts.known import judged, known
from lab.verdicts.page import PAGE, rendered
from lab.verdicts.samples import CHOSEN, LIMIT, sampled, unpack
from lab.verdicts.verdicts import verdict


pytestmark = pytest.mark.long  # unpacks recordings


@pytest.fixture(scope="module")
def by_name() -> dict[str, Case]:
    """Every case by its name."""
    return {case.name: case for case in cases()}


def again(line: Line, case: Case, checkpoint: Path, copy: Path) -> Line:
    """Return a kept line with the verdict of today."""
    said, codes = verdict(case, case.damaged(copy, checkpoint))
    return replace(line, verdict=said, codes=codes)


@pytest.mark.parametrize("release", sorted(CHOSEN))
def test_a_verdict_agrees_with_the_release_or_has_a_reason(
    release: str, by_name: dict[str, Case], tmp_path: Path
) -> None:
    recordings = unpack(release, tmp_path / "recorded")
    kept = [line for line in sampled(read()) if line.release == release]

    today = [again(line, by_name[line.name], recordings[line.shape], tmp_path / "copy") for line in kept]

    assert today
    assert judged(today, known()).unexplained == ()


def test_the_page_equals_the_stored_answers() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(read(), known())


def test_every_kept_disagreement_has_a_reason_and_every_reason_a_disagreement() -> None:
    result = judged(read(), known())

    assert (result.unexplained, result.idle) == ((), ())


def test_a_kept_answer_belongs_to_a_damage_as_it_is_defined_today(by_name: dict[str, Case]) -> None:
    assert [line.name for line in read() if by_name[line.name].digest != line.digest] == []


def test_the_samples_and_the_answers_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.xz")) < LIMIT
