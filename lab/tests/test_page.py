"""The page of proofs: one section a suite, replaced as a whole."""

from __future__ import annotations

from datetime import date

from lab.page import written
from lab.suite import Proof
from lab.year import SimulatedYear
from tests.support.checkpoints.simulated_year import Year


SUITE = SimulatedYear(Year(batches=240, losses=24, savepoints=12, per_checkpoint=5))
DAY = date(2026, 11, 22)
HELD = Proof(("month", "nodes"), [("1", "20")], untrue=())


def test_a_section_is_added_below_the_head() -> None:
    page = written("", SUITE, HELD, on=DAY, machine="2 processors, 24 GiB")

    assert page.startswith("# Proofs\n")
    assert "`make proof SUITE=year`, 2026-11-22, 2 processors, 24 GiB. Everything that has to hold held." in page
    assert "| month | nodes |\n| --- | --- |\n| 1 | 20 |\n" in page


def test_a_new_proof_replaces_its_section_and_no_other() -> None:
    page = written("", SUITE, HELD, on=DAY, machine="m").replace("year -->", "other -->")
    page = written(page, SUITE, HELD, on=DAY, machine="m")

    page = written(page, SUITE, Proof(("month", "nodes"), [("1", "99")], untrue=()), on=DAY, machine="m")

    assert page.count("| 1 | 20 |") == 1  # of the other one
    assert page.count("| 1 | 99 |") == 1


def test_a_promise_that_does_not_hold_is_named() -> None:
    page = written("", SUITE, Proof((), (), untrue=["the nodes grew from 20 to 99."]), on=DAY, machine="m")

    assert "**Does not hold:** the nodes grew from 20 to 99." in page
    assert "Everything" not in page
