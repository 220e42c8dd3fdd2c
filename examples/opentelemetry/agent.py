"""An agent that is instrumented with OpenTelemetry's own SDK and sends its traces to the flywheel.

It answers one question about the weather with one tool. The spans follow OpenTelemetry's GenAI conventions; what these
have no word for is stated once, for the whole process, as attributes of the resource. Where the traces go is said by
OpenTelemetry's usual variables:

    export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:8200        # or :4317 with OTEL_EXPORTER_OTLP_PROTOCOL=grpc
    export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20$(flywheel keys create --tenant acme)"
    python agent.py "What is the weather in Oslo?"

pip install opentelemetry-sdk opentelemetry-exporter-otlp
"""

import json
import os
import sys

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

STATED = {
    "service.name": "weather-agent",
    "flywheel.routing.taskType": "tool-calling",
    "flywheel.routing.complexity": "standard",
    "flywheel.routing.strategy": "fallback",
    "flywheel.routing.confidence": 1.0,
    "flywheel.routing.candidateAgents": "[]",
    "flywheel.routing.primaryReason": "there is one agent",
}
WEATHER = {"Oslo": "-3 °C, snow", "Lisbon": "19 °C, sun"}


def exporter() -> SpanExporter:
    """OTLP over HTTP, or over gRPC where OTEL_EXPORTER_OTLP_PROTOCOL says so."""
    if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc(insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

    return Http()


def answer(question: str, tracer: trace.Tracer) -> str:
    """Answer a question: the model asks for a tool, the tool answers, the model answers."""
    called = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather-agent"}
    with tracer.start_as_current_span("invoke_agent weather-agent", attributes=called) as agent:
        conversation = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
        wanted = chat(tracer, conversation, tools=True)
        conversation.append(wanted)
        arguments = wanted["parts"][0]["arguments"]
        found = weather(arguments["city"], tracer)
        part = {"type": "tool_call_response", "id": "call_1", "response": found}
        conversation.append({"role": "tool", "parts": [part]})
        final = chat(tracer, conversation, tools=False)
        text = final["parts"][0]["content"]
        evaluate(agent, correct=found in text)
    return text


def chat(tracer: trace.Tracer, conversation: list[dict], *, tools: bool) -> dict:
    """One call of the model: here a few rules, in a real agent the client of a provider."""
    called = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "rules", "gen_ai.request.model": "rules-1"}
    with tracer.start_as_current_span("chat rules-1", attributes=called) as span:
        if tools:
            question = conversation[0]["parts"][0]["content"]
            city = next((city for city in WEATHER if city in question), "Oslo")
            part = {"type": "tool_call", "id": "call_1", "name": "weather", "arguments": {"city": city}}
        else:
            part = {"type": "text", "content": f"It is {conversation[-1]['parts'][0]['response']}."}
        message = {"role": "assistant", "parts": [part], "finish_reason": "tool_call" if tools else "stop"}
        span.set_attribute("gen_ai.input.messages", json.dumps(conversation))
        span.set_attribute("gen_ai.output.messages", json.dumps([message]))
        span.set_attribute("gen_ai.response.finish_reasons", [message["finish_reason"]])
        span.set_attribute("gen_ai.usage.input_tokens", len(json.dumps(conversation)) // 4)
        span.set_attribute("gen_ai.usage.output_tokens", len(json.dumps(message)) // 4)
        return message


def weather(city: str, tracer: trace.Tracer) -> str:
    """The tool."""
    called = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "call_1"}
    with tracer.start_as_current_span("execute_tool weather", attributes=called):
        return WEATHER[city]


def evaluate(agent: trace.Span, *, correct: bool) -> None:
    """Say what the answer is worth: the six terms of the rubric and the overall score, as GenAI's evaluation events."""
    worth = float(correct)
    scores = {"format": 1.0, "tool": worth, "task": worth, "minimal": 1.0, "cost": 1.0, "safety": 1.0, "overall": worth}
    for name, score in scores.items():
        agent.add_event(
            "gen_ai.evaluation.result", {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": score}
        )
    agent.set_attribute("flywheel.evaluation.qualityGates", "[]")
    for field in ("cawsCompliant", "budgetCompliant", "passedAllMandatory"):
        agent.set_attribute(f"flywheel.evaluation.{field}", True)


def main() -> None:
    """Answer the question of the command line and send the trace."""
    provider = TracerProvider(resource=Resource.create(STATED))
    provider.add_span_processor(BatchSpanProcessor(exporter()))
    print(answer(" ".join(sys.argv[1:]) or "What is the weather in Oslo?", provider.get_tracer("weather-agent")))
    if not provider.force_flush():
        sys.exit("the traces were not sent; see OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS")
    provider.shutdown()


if __name__ == "__main__":
    main()
