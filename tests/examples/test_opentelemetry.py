"""The example agent, with OpenTelemetry's own SDK and exporters, against a receiver of its own process."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from flywheel.pool.intake import index_segments
from flywheel.pool.pool import BenchmarkPool
from flywheel.pool.validation import validate_day
from flywheel.records import Evaluation, Execution, RoutingDecision, decode_log
from flywheel.settings import Settings
from tests.api.receiver.conftest import Server, headers_of, serve, stored

__all__ = ["serve"]
AGENT = Path(__file__).resolve().parents[2] / "examples" / "opentelemetry" / "agent.py"


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_the_trace_of_an_agent_becomes_a_valid_task(
    settings: Settings, serve: Callable[..., Server], protocol: str
) -> None:
    server = serve(trace_settle_s=0.5)
    key = headers_of(settings)["Authorization"].replace(" ", "%20")
    url = server.url if protocol == "http/protobuf" else f"http://127.0.0.1:{server.grpc_port}"
    environment = os.environ | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={key}",
    }
    command = [sys.executable, str(AGENT), "How is Lisbon?"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "It is 19 °C, sun."
    deadline = time.monotonic() + 30
    while not list(settings.segments_dir.glob("otlp-*.segment")):
        assert time.monotonic() < deadline, server.log.read_text()
        time.sleep(0.2)
    server.end()
    routing, execution, evaluation = (decode_log(msgspec.json.encode(log)) for log in stored(settings))
    assert isinstance(routing, RoutingDecision)
    assert isinstance(execution, Execution)
    assert isinstance(evaluation, Evaluation)
    assert (routing.tenant_id, routing.task_type, routing.selected_agent_id) == (
        "acme",
        "tool-calling",
        "weather-agent",
    )
    assert routing.description == "How is Lisbon?"
    assert [message.role for message in execution.messages] == ["user", "assistant", "tool", "assistant"]
    assert [(use.tool_name, use.call_count) for use in execution.tools_used] == [("weather", 1)]
    assert (execution.success, evaluation.overall_score, evaluation.rubric_scores.task) == (True, 1.0, 1.0)
    with BenchmarkPool.open(settings) as pool:
        index_segments(pool, now=datetime.now(UTC))
        day = validate_day(pool, routing.timestamp.date(), now=datetime.now(UTC))
    assert (day.points, day.quarantined) == (1, 0)
