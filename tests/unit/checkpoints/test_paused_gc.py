"""The search for cycles is off within a block, and as it was before after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from airflow_provider_ha.checkpoints.areas.layered.takeover import paused_gc


@pytest.fixture(autouse=True)
def on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_off_within_the_block_and_on_after_it() -> None:
    with paused_gc():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_it_is_on_again_after_an_error() -> None:
    with pytest.raises(ValueError, match="broken"), paused_gc():
        raise ValueError("broken")

    assert gc.isenabled()


def test_it_stays_off_until_the_last_of_several_blocks_is_over() -> None:
    first, second = paused_gc(), paused_gc()
    first.__enter__()
    second.__enter__()

    first.__exit__(None, None, None)
    assert not gc.isenabled()

    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_what_was_off_before_stays_off() -> None:
    gc.disable()

    with paused_gc():
        pass

    assert not gc.isenabled()
