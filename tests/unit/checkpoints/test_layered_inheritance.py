"""Which files of a fenced query directory its successor inherits."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.areas.layered.takeover import InheritedCut, belongs, is_own


CUT = InheritedCut(planned=9, committed=8, logged={"sources/0": 12})


@pytest.mark.parametrize(
    ("name", "inherited"),
    [
        ("metadata", True),
        ("offsets/9", True),
        ("offsets/10", False),
        ("offsets/x", False),
        ("commits/8", True),
        ("commits/9", False),
        ("sources/0/12", True),
        ("sources/0/9.compact", True),
        ("sources/0/13", False),
        ("sources/0/19.compact", False),
        ("sources/1/0", True),
        ("sources/1/77", True),
        ("state/0/3/9.zip", True),
        ("state/0/3/10.zip", False),
        ("state/0/3/9.delta.crc", True),
        ("state/0/3/10.delta.crc", False),
        ("state/0/3/9_5e1c.changelog", True),
        ("state/0/3/10_5e1c.changelog", False),
        ("state/0/3/left-keyToNumValues/10.snapshot", False),
        ("state/0/3/SSTs/000099-5e1c.sst", True),
        ("state/0/_metadata/metadata", True),
        ("state/0/_metadata/v2/8", True),
        ("state/0/_metadata/v2/9", False),
        ("state/0/_stateSchema/default/0_5e1c", True),
        ("state/0/_stateSchema/default/9_5e1c", False),
        ("state/0/3/_metadata/schema", True),
        ("state/0/3/.9.zip.5e1c.tmp", False),
        ("offsets/.9.crc", False),
        ("_ha_base", False),
        ("_ha_removed", False),
        ("strange", False),
    ],
)
def test_a_file_is_inherited_when_it_belongs_to_the_cut(name: str, inherited: bool) -> None:
    assert belongs(name, CUT) is inherited


@pytest.mark.parametrize("name", ["state/0/_metadata/metadata", "state/0/3/1.zip", "commits/0", "offsets/1"])
def test_of_a_query_that_has_committed_nothing_no_state_is_inherited(name: str) -> None:
    assert not belongs(name, InheritedCut(planned=0, committed=-1))


def test_of_a_query_that_has_planned_nothing_only_its_id_is_inherited() -> None:
    names = ["metadata", "offsets/0", "commits/0", "sources/0/0", "state/0/0/1.zip"]

    assert [name for name in names if belongs(name, InheritedCut(planned=-1, committed=-1))] == ["metadata"]


@pytest.mark.parametrize(
    ("name", "own"),
    [("state/0/_metadata/v2/8", True), ("state/0/_metadata/v2/8.crc", True), ("state/0/_metadata/metadata", False)],
)
def test_files_with_absolute_paths_are_written_again(name: str, own: bool) -> None:
    assert is_own(name) is own
