"""What the child of a proof answers when the proof itself fails: the question stays open, with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from airflow_provider_ha.checkpoints.proof.answers import Answer, Event
from airflow_provider_ha.checkpoints.proof.request import ProofRequest


FAILS = """
import sys
from airflow_provider_ha.proof import main as prove

def fail(request, voice):
    print("a line that ends nowhere", end="", flush=True)
    raise RuntimeError("the scratch directory is gone")

prove.prove = fail
prove.main(sys.argv[1:])
"""


def test_a_proof_that_fails_says_why_and_ends_in_order(tmp_path: Path) -> None:
    request = ProofRequest(
        copy_directory=tmp_path, original=str(tmp_path), batch=4, state_by_id=False, scratch=tmp_path, heap="1g"
    )
    (tmp_path / "request.json").write_text(request.model_dump_json())

    done = subprocess.run(
        [sys.executable, "-c", FAILS, str(tmp_path / "request.json")], check=True, capture_output=True, timeout=60
    )

    answers = [Answer.model_validate_json(line) for line in done.stdout.splitlines()]
    assert answers == [
        Answer(event=Event.UNABLE, reason="RuntimeError: the scratch directory is gone"),
        Answer(event=Event.DONE),
    ]
