"""What Spark is started from when a damaged checkpoint is restored: the package's restore, or logs taken back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import numbers
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from lab.verdicts.asked import answered
from lab.verdicts.cases import Case, cases
from lab.verdicts.damages import Damage
from lab.verdicts.restoring import given
from lab.verdicts.samples import unpack
from lab.verdicts.steps import Step


RELEASE = "4.2.0"


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """A recording of the sample whose newest entry of the offset log is empty, to be restored to the batch before."""
    place = unpack(RELEASE, tmp_path / "recorded")["hdfs"].parent
    (place / "complete").touch()
    monkeypatch.setattr(Case, "place", property(lambda _: place))
    return Case(RELEASE, "hdfs", Damage("x", ("hdfs",), (Step("empty", "offsets/{L}"),), rewound=1, restored=True))


def test_a_batch_of_the_list_is_restored_with_what_it_needs_alone(case: Case, tmp_path: Path) -> None:
    restored = given(case, tmp_path / "copy")

    assert (restored, numbers(LocalTree(tmp_path / "copy/offsets")), numbers(LocalTree(tmp_path / "copy/commits"))) == (
        True,
        [2, 3],
        [3],
    )


def test_logs_are_taken_back_to_a_batch_that_is_not_on_the_list(case: Case, tmp_path: Path) -> None:
    lost = replace(case, damage=replace(case.damage, steps=(Step("remove", "metadata"),)))

    restored = given(lost, tmp_path / "copy")

    assert (restored, numbers(LocalTree(tmp_path / "copy/commits"))) == (False, [0, 1, 2, 3])
    assert (tmp_path / "copy/state/0/0/4.delta").exists()
    assert not (tmp_path / "copy/state/0/0/5.delta").exists()


def test_an_answer_about_another_restore_does_not_count(case: Case, tmp_path: Path) -> None:
    control = replace(case, damage=replace(case.damage, name=case.damage.control, steps=(), restored=False))
    for shown, restored in ((1, True), (0, False)):
        kept = tmp_path / str(restored) / f"{RELEASE}.jsonl"
        kept.parent.mkdir()
        kept.write_text(
            "".join(
                f'{{"shape":"hdfs","damage":"{one.damage.name}","digest":"{one.digest}","answer":'
                f'{{"starts":[{{"error":null,"rows":[]}}],"same_id":true,"restored":{str(restored).lower()}}}}}\n'
                for one in (control, case)
            )
        )

        lines, _ = answered([control, case], kept.parent, lambda _: None, asking=False)

        assert sum(line.damage == "x" for line in lines) == shown


def test_every_restored_batch_has_an_undamaged_control() -> None:
    restored = [case for case in cases() if case.damage.restored]

    assert {case.damage.control for case in restored} == {"whole, rewound 0, open 0", "whole, rewound 1, open 0"}
