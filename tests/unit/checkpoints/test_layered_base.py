"""The file that names what a query directory inherits: it comes back as it was written, or it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ha.checkpoints.areas.layered.base_file import Base, BaseEntry, parse_base
from airflow_provider_ha.errors import CheckpointCorruptError


ABOUT = {"epoch": 8, "submission": "s-1", "source": "jobs/j/live/e7-x/q", "batch": 41}
SOUND = Base.of(
    [
        BaseEntry("offsets/41", "jobs/j/live/e7-x/q/offsets/41", 120, 1_700_000_000_000, "ab12"),
        BaseEntry("metadata", "jobs/j/live/e1-a/q/metadata", 45),
    ],
    **ABOUT,
)
TEXT = SOUND.to_bytes().decode()
SEGMENT = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text not in (".", "..")
)
PATH = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
ENTRY = st.builds(
    BaseEntry,
    name=PATH,
    place=PATH,
    length=st.integers(0, 10**18 - 1),
    mtime=st.integers(0, 10**18 - 1),
    etag=st.text("0123456789abcdef-", max_size=40),
)


@given(st.lists(ENTRY, unique_by=lambda entry: entry.name))
def test_a_base_comes_back_as_it_was_written(entries: list[BaseEntry]) -> None:
    base = Base.of(entries, **ABOUT)

    assert parse_base(base.to_bytes()) == base


def test_a_base_is_written_as_its_format_says() -> None:
    assert TEXT == (
        'spark-ha-base 1 {"epoch": 8, "submission": "s-1", "source": "jobs/j/live/e7-x/q", "batch": 41}\n'
        "metadata\tjobs/j/live/e1-a/q/metadata\t45\t0\t\n"
        "offsets/41\tjobs/j/live/e7-x/q/offsets/41\t120\t1700000000000\tab12\n"
        "end 2\n"
    )


def test_only_four_characters_are_encoded() -> None:
    entry = BaseEntry("a%b\tc\nd\re f/ü", "p", 1)

    assert "\na%25b%09c%0Ad%0De f/ü\tp\t1\t0\t\n" in Base.of([entry]).to_bytes().decode()


@pytest.mark.parametrize("cut", range(1, len(TEXT)))
def test_half_a_base_is_refused_wherever_it_ends(cut: int) -> None:
    with pytest.raises(CheckpointCorruptError):
        parse_base(TEXT[:-cut].encode())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("spark-ha-base 1", "spark-ha-fence 1", "does not begin with spark-ha-base"),
        ("spark-ha-base 1 {", "spark-ha-base 1 [", "no JSON follows"),
        ('{"epoch"', '["epoch"', "no JSON"),
        ("end 2", "end 3", "it is truncated"),
        ("end 2\n", "end 2\n\n", "it is truncated"),
        ("metadata\t", "/metadata\t", "leads out"),
        ("metadata\t", "../metadata\t", "leads out"),
        ("metadata\t", "a//b\t", "leads out"),
        ("metadata\t", "./metadata\t", "leads out"),
        ("metadata\t", "\t", "leads out"),
        ("metadata\tjobs", "metadata\t/jobs", "leads out"),
        ("metadata\tjobs", "metadata\t../jobs", "leads out"),
        ("metadata\t", "a%2Fb\t", "'%2F' encodes no character"),
        ("metadata\t", "a%\t", "'%' encodes no character"),
        ("metadata\t", "a\r\t", "must be encoded"),
        ("\t45\t", "\t-1\t", "'-1' is not a number"),
        ("\t45\t", "\t045\t", "'045' is not a number"),
        ("\t45\t", "\t\t", "'' is not a number"),
        ("\t45\t0\t\n", "\t45\t0\n", "4 fields instead of 5"),
        ("\t45\t0\t\n", "\t45\t0\t\tmore\n", "6 fields instead of 5"),
        ("metadata\t", "offsets/41\t", "is a duplicate"),
        ("metadata\t", "zzz\t", "out of order"),
    ],
)
def test_a_base_that_its_format_does_not_allow_is_refused(old: str, new: str, reason: str) -> None:
    assert old in TEXT

    with pytest.raises(CheckpointCorruptError, match=reason):
        parse_base(TEXT.replace(old, new, 1).encode())


def test_a_base_of_another_version_is_refused_with_both_versions() -> None:
    with pytest.raises(CheckpointCorruptError, match=r"format version 2, and release \S+ reads version 1"):
        parse_base(TEXT.replace("spark-ha-base 1", "spark-ha-base 2", 1).encode())


def test_fields_of_a_later_release_in_a_base_are_ignored() -> None:
    assert parse_base(b'spark-ha-base 1 {"later": true}\nend 0\n').about == {"later": True}


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(CheckpointCorruptError, match="not UTF-8"):
        parse_base(b"\xff\xfe")


@pytest.mark.parametrize("entry", [BaseEntry("../a", "p", 1), BaseEntry("a", "/p", 1), BaseEntry("a", "p", 1, 0, "\n")])
def test_a_base_that_could_not_be_read_is_never_written(entry: BaseEntry) -> None:
    with pytest.raises(CheckpointCorruptError):
        Base.of([entry])


@pytest.mark.parametrize(
    ("name", "replaceable"),
    [
        ("state/0/3/17.zip", True),
        ("state/0/3/17.delta", True),
        ("state/0/3/17.snapshot.crc", True),
        ("state/0/3/17.changelog", True),
        ("state/0/3/17_5e1c.zip", False),
        ("state/0/3/SSTs/000012-5e1c.sst", False),
        ("offsets/17", False),
    ],
)
def test_names_that_another_attempt_writes_again_are_known(name: str, replaceable: bool) -> None:
    assert BaseEntry(name, name, 1).replaceable is replaceable
