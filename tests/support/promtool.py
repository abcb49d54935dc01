"""Prometheus' promtool, the real program: evaluates rules over series that a test makes up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.go_program import GoProgram


PROGRAM = GoProgram("promtool", "github.com/prometheus/prometheus/cmd/promtool", "v0.316.0")


@dataclass(frozen=True, slots=True)
class Case:
    """One alert over series of half an hour.

    :param severity: Of its rule.
    :param series: Series -> values, in the notation of promtool: one every half minute.
    :param firing: Labels of the alert that has to fire in the end, as they are written between braces; empty for none.
    """

    alert: str
    severity: str
    series: Mapping[str, str]
    firing: str = ""

    def document(self, rules: Path) -> dict[str, Any]:
        """Return the test as promtool reads it."""
        labels = f'alertname="{self.alert}", alertstate="firing", severity="{self.severity}", {self.firing}'
        expected = {
            "expr": f'ALERTS{{alertname="{self.alert}", alertstate="firing"}}',
            "eval_time": "29m",
            "exp_samples": [{"labels": f"ALERTS{{{labels}}}", "value": 1}] if self.firing else [],
        }
        inputs = [{"series": name, "values": values} for name, values in self.series.items()]
        test = {"interval": "30s", "input_series": inputs, "promql_expr_test": [expected]}
        return {"rule_files": [str(rules)], "evaluation_interval": "30s", "tests": [test]}


def disagreement(rules: Path, case: Case, place: Path) -> str:
    """Return how what fires differs from what has to; empty when it does not.

    :param rules: File of rules.
    :param place: A directory for the file of the test.
    """
    return _answer(case.document(rules), place)


def misjudged(expression: str, series: Mapping[str, str], expected: Mapping[str, bool], place: Path) -> str:
    """Return at which moments an expression has a sample and should have none, or the other way round; empty for never.

    :param series: As :attr:`Case.series`, of one cluster and job.
    :param expected: Moment, as ``10m`` -> whether the expression has a sample then.
    :param place: As for :func:`disagreement`.
    """
    tests = [
        {
            "expr": f"count({expression}) or vector(0)",
            "eval_time": at,
            "exp_samples": [{"labels": "{}", "value": int(has)}],
        }
        for at, has in expected.items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    return _answer({"tests": [{"interval": "30s", "input_series": inputs, "promql_expr_test": tests}]}, place)


def _answer(document: Mapping[str, Any], place: Path) -> str:
    """Return what promtool has against a test of rules; empty when it passes."""
    file = place / "test.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    command = [str(PROGRAM.built()), "test", "rules", str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr
