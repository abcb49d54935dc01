"""What may grow in a simulated year, and what may not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.proofs.year import growth
from tests.support.checkpoints.simulated_year import Month


FIRST = Month(rss=50, znodes=60, payloads=9, archives=10, files=300, bytes=3, recovery=0.1, processor=0.04)


def year(**last: Any) -> list[Month]:
    """Return twelve months, the last one with other figures."""
    return [FIRST] * 11 + [FIRST.model_copy(update=last)]


def test_payloads_and_their_archives_may_grow() -> None:
    assert growth(year(payloads=900, archives=110, files=300 + 200 + 891)) == []


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        ({"rss": 90}, "memory grew from 50 to 90."),
        ({"znodes": 100}, "the nodes grew from 60 to 100."),
        ({"files": 500}, "the files grew from 271 to 471."),
        ({"processor": 0.09}, "a recovery's processor time grew from 0.04 to 0.09."),
        ({"payloads": 2_001, "files": 300 + 1_992}, "2,001 payloads are kept outside of archives."),
    ],
)
def test_what_grows_beyond_noise_is_named(last: dict[str, float], sentence: str) -> None:
    assert growth(year(**last)) == [sentence]
