"""Child of a proof: the query it needs, starts after it, and its answer when it fails."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from airflow_provider_ha.checkpoints.verify.proof_protocol import (
    Application,
    ProofEvent,
    ProofMessage,
    ProofRequest,
    SparkError,
)
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes
from airflow_provider_ha.host.proof.main import forced, spark_properties
from airflow_provider_ha.host.proof.script_start import is_wanted, starts_after


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


def test_the_output_of_a_script_is_answered_without_its_secrets(tmp_path: Path) -> None:
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


def request(
    scratch: Path = Path("/s"), *, query: str | None = None, conf: dict[str, str] | None = None
) -> ProofRequest:
    return ProofRequest(
        copy_directory=Path("/s/copy"),
        original="/data/counts",
        batch=8,
        state_by_id=False,
        query=query,
        application=Application(script=Path("/apps/app.py"), conf=conf or {}),
        scratch=scratch,
        heap="2g",
    )


@pytest.mark.parametrize(
    ("name", "location", "wanted"),
    [
        ("any", "/data/counts", True),
        ("any", "file:///data/counts", True),
        ("any", "file:/data/../data/counts/", True),
        ("counts", "/data/other", False),
        ("counts", "s3a://data/counts", False),
        ("counts", None, True),  # a managed job: the location comes from the conf
        ("other", None, False),
        (None, None, False),
    ],
)
def test_without_a_name_it_is_the_one_of_this_location_else_of_this_name(
    name: str | None, location: str | None, *, wanted: bool
) -> None:
    options = {} if location is None else {"checkpointlocation": location}

    assert is_wanted(request(), WriterNotes(name=name, options=options)) is wanted


@pytest.mark.parametrize(
    ("original", "location", "wanted"),
    [
        ("s3://data/counts", "s3a://data/counts/", True),
        ("s3://data/counts", "s3a://data/other", False),
        ("s3://data/counts", "/data/counts", False),
        ("hdfs://namenode:8020/counts", "hdfs://NAMENODE:8020/counts", True),
        ("s3://data/counts", None, True),
        ("s3://data/counts", "gs://data/counts", False),
    ],
)
def test_a_location_in_a_store_is_known_in_every_spelling(original: str, location: str | None, *, wanted: bool) -> None:
    options = {} if location is None else {"checkpointlocation": location}
    asked = request().model_copy(update={"original": original})

    assert is_wanted(asked, WriterNotes(name="counts", options=options)) is wanted


def test_a_name_that_is_asked_for_decides_alone() -> None:
    elsewhere = {"checkpointlocation": "/data/counts"}

    assert is_wanted(request(query="late"), WriterNotes(name="late"))
    assert not is_wanted(request(query="late"), WriterNotes(name="counts", options=elsewhere))


@pytest.mark.parametrize(("size", "quick"), [(46 << 10, True), (1 << 30, False)])
def test_the_jvm_of_a_small_proof_starts_quickly_and_prints_the_output_of_the_application(
    size: int, quick: bool, tmp_path: Path
) -> None:
    asked = request(tmp_path, conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"})

    options = spark_properties(asked.model_copy(update={"size": size}))["spark.driver.extraJavaOptions"].split()

    assert options[:-1] == ["-XX:TieredStopAtLevel=1"] * quick + ["-XX:TieredStopAtLevel=4"]


def test_no_application_leaves_this_host_or_the_scratch_directory(tmp_path: Path) -> None:
    conf = {"spark.master": "spark://prod:7077", "spark.local.dir": "/data", "spark.sql.extensions": "io.x.Y"}
    values = spark_properties(request(tmp_path, conf=conf))

    assert values["spark.master"] == "local[2]"
    assert values["spark.driver.memory"] == "2g"
    assert values["spark.sql.extensions"] == "io.x.Y"
    assert values["spark.driver.bindAddress"] == "127.0.0.1"
    assert {key for key, value in forced(request(tmp_path)).items() if str(tmp_path) in value} == {
        "spark.local.dir",
        "spark.sql.warehouse.dir",
        "spark.sql.streaming.checkpointLocation",
    }


def test_the_workers_of_a_proof_import_modules_next_to_the_script(tmp_path: Path) -> None:
    values = spark_properties(request(tmp_path, conf={"spark.executorEnv.PYTHONPATH": "/opt/lib"}))

    assert values["spark.executorEnv.PYTHONPATH"] == "/apps:/opt/lib"


def goes_on(text: str) -> bool:
    """Whether a start may follow the line with ``HERE``, in the function that holds it."""
    text = dedent(text)
    lines = text.splitlines()
    here = next(number for number, line in enumerate(lines, 1) if "HERE" in line)
    module = ast.parse(text)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    holding = [node.lineno for node in functions if node.lineno <= here <= (node.end_lineno or 0)]
    return starts_after(module, here, max(holding, default=0))


@pytest.mark.parametrize(
    "text",
    [
        "a.start().awaitTermination()  # HERE\nmark_done()",
        "query = a.start()\nb.toTable('t')\nquery.awaitTermination()  # HERE\nremove_staging()",
        "start = now()\na.start().awaitTermination()  # HERE\nprint(now() - start)",
        "def run():\n    a.start().awaitTermination()  # HERE\n    mark_done()\nrun()",
        "def run():\n    a.start()\nrun()\nwait()  # HERE\nclean()",
        "if one:\n    a.awaitTermination()  # HERE\n    mark_done()\nelse:\n    b.start()\nend()",
        "try:\n    a.awaitTermination()  # HERE\nexcept OSError:\n    b.start()\nend()",
    ],
)
def test_a_script_whose_last_start_is_behind_it_ends_where_it_waits(text: str) -> None:
    assert not goes_on(text)


@pytest.mark.parametrize(
    "text",
    [
        "a.start().awaitTermination()  # HERE\nb.start()",
        "a.awaitTermination()  # HERE\nb.toTable('t')",
        "def run(): b.start()\na.awaitTermination()  # HERE\nrun()",
        "def inner(): b.start()\ndef run(): inner()\na.awaitTermination()  # HERE\nrun()",
        "def run(): b.start()\na.awaitTermination()  # HERE\npool.map(run, names)",
        "class Job:\n    def run(self): b.start()\na.awaitTermination()  # HERE\nJob().run()",
        "if one:\n    a.awaitTermination()  # HERE\nb.start()",
        "try:\n    a.awaitTermination()  # HERE\nfinally:\n    b.start()",
        "for each in all:\n    query = each.start()\n    query.awaitTermination()  # HERE",
        "def run():\n    a.awaitTermination()  # HERE\n    b.start()\nrun()",
    ],
)
def test_a_script_goes_on_while_a_start_may_follow(text: str) -> None:
    assert goes_on(text)
