"""Decoding data points, typed and with bounds, beside ``json.loads``, which checks nothing.

``python benchmarks/records.py [--json]``. Records/s on one core, the median of five rounds over the same bytes.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from flywheel import records

POINTS = 2_000
ROUNDS = 5


def point(number: int) -> records.DataPoint:
    """A point of about 5 kB, most of it conversation."""
    turns = tuple(
        records.Message(role=role, content=f"{role} says what number {number} is about. " * 20)
        for role in ("system", "user", "assistant", "tool", "assistant")
    )
    return records.DataPoint(
        id=f"{number:032x}",
        timestamp=datetime(2026, 11, 20, tzinfo=UTC),
        tenant_id="a" * 64,
        task=records.Task(id=f"t{number}", type="research", complexity=records.Complexity.STANDARD),
        routing=records.Routing(
            selected_agent_id="agent",
            strategy=records.Strategy.MULTI_ARMED_BANDIT,
            confidence=0.9,
            candidate_agents=(),
            primary_reason="highest sample",
        ),
        execution=records.ExecutionPart(
            success=True, latency_ms=812.5, tokens_used=431, tool_call_count=0, messages=turns
        ),
        evaluation=records.EvaluationPart(
            quality_gates=(records.QualityGate(name="valid", passed=True, score=1, threshold=1, mandatory=True),),
            rubric_scores=records.RubricScores(format=1, tool=1, task=1, minimal=1, cost=0.5, safety=1),
            overall_score=0.95,
            caws_compliant=True,
            budget_compliant=True,
            passed_all_mandatory=True,
        ),
        rl_labels=records.RlLabels(final_outcome="success", total_reward=0.95),
        provenance=records.Provenance(),
    )


def records_per_second(decode: Callable[[bytes], Any], lines: list[bytes]) -> float:
    """The median rate over the rounds."""
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for line in lines:
            decode(line)
        rates.append(len(lines) / (time.perf_counter() - started))
    return statistics.median(rates)


def main() -> None:
    """Measure both in one run and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    lines = [records.encode(point(number)) for number in range(POINTS)]
    ours = records_per_second(records.decode_point, lines)
    peer = records_per_second(json.loads, lines)
    figures = {
        "bytesPerRecord": len(lines[0]),
        "decodePoint": round(ours),
        "jsonLoads": round(peer),
        "ratio": round(ours / peer, 2),
    }
    if as_json:
        print(json.dumps(figures))
    else:
        print(f"records of {figures['bytesPerRecord']:,} bytes, one core")
        print(f"  decode_point (typed, bounds checked)  {ours:>10,.0f} records/s")
        print(f"  json.loads (nothing checked)          {peer:>10,.0f} records/s")
        print(f"  ratio                                 {ours / peer:>10.2f}")


if __name__ == "__main__":
    main()
