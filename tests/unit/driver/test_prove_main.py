"""What the child of a proof answers when the proof itself fails: the question stays open, with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    Application,
    ProofEvent,
    ProofMessage,
    ProofRequest,
    SparkError,
)


FAILS = """
import sys
from airflow_provider_ha.host.proof import main as prove

def fail(request, voice):
    print("a line that ends nowhere", end="", flush=True)
    raise RuntimeError("the scratch directory is gone")

prove.prove = fail
prove.main(sys.argv[1:])
"""


TELLS = """
import sys
from airflow_provider_ha.checkpoints.verify.proof_protocol import ProofMessage, ProofEvent, SparkError
from airflow_provider_ha.host.proof import main as prove

SAID = "main.py failed: no login with by-argument, by-conf-1, by-env-12"

def tell(request, voice):
    voice.say(ProofMessage(event=ProofEvent.UNABLE, reason=SAID))
    voice.say(ProofMessage(event=ProofEvent.REFUSED, errors=(SparkError(error_class="OOPS", message=SAID),)))

prove.prove = tell
prove.main(sys.argv[1:])
"""
HIDDEN = "main.py failed: no login with ***, ***, ***"


def test_what_a_script_says_is_answered_without_the_secrets_that_it_was_given(tmp_path: Path) -> None:
    application = Application(
        script=tmp_path / "main.py",
        arguments=("--password", "by-argument"),
        conf={"spark.db.secret": "by-conf-1"},
        env={"DB_TOKEN": "by-env-12"},
    )
    request = ProofRequest(
        copy_directory=tmp_path,
        original=str(tmp_path),
        batch=4,
        state_by_id=False,
        application=application,
        scratch=tmp_path,
        heap="1g",
    )
    (tmp_path / "request.json").write_text(request.model_dump_json())

    done = subprocess.run(
        [sys.executable, "-c", TELLS, str(tmp_path / "request.json")], check=True, capture_output=True, timeout=60
    )

    answers = [ProofMessage.model_validate_json(line) for line in done.stdout.splitlines()]
    assert answers == [
        ProofMessage(event=ProofEvent.UNABLE, reason=HIDDEN),
        ProofMessage(event=ProofEvent.REFUSED, errors=(SparkError(error_class="OOPS", message=HIDDEN),)),
        ProofMessage(event=ProofEvent.DONE),
    ]


def test_a_proof_that_fails_says_why_and_ends_in_order(tmp_path: Path) -> None:
    request = ProofRequest(
        copy_directory=tmp_path, original=str(tmp_path), batch=4, state_by_id=False, scratch=tmp_path, heap="1g"
    )
    (tmp_path / "request.json").write_text(request.model_dump_json())

    done = subprocess.run(
        [sys.executable, "-c", FAILS, str(tmp_path / "request.json")], check=True, capture_output=True, timeout=60
    )

    answers = [ProofMessage.model_validate_json(line) for line in done.stdout.splitlines()]
    assert answers == [
        ProofMessage(event=ProofEvent.UNABLE, reason="RuntimeError: the scratch directory is gone"),
        ProofMessage(event=ProofEvent.DONE),
    ]
