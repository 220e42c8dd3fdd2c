"""Writes the logs beside it by inspect-ai itself, which wants other versions of packages than the project has.

    python -m tests.collection.importers.test_round_trips > native.jsonl
    python -m venv other && other/bin/pip install inspect-ai==0.3.285
    other/bin/python tests/collection/importers/inspect_logs/write.py native.jsonl

A line of ``native.jsonl`` is a task as the project logs it: ``{"name", "routing", "execution", "evaluation"}``.
"""

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from inspect_ai.event import Event, ToolEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
    EvalLog,
    EvalSample,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall, ToolCallError

Json = dict[str, Any]


def messages_of(execution: Json) -> list[ChatMessage]:
    """The conversation; a tool whose calls all failed said its error."""
    failed = {use["toolName"] for use in execution["toolsUsed"] if not use["successRate"]}
    called: dict[str, str] = {}
    found: list[ChatMessage] = []
    for message in execution["messages"]:
        content = message["content"]
        match message["role"]:
            case "system":
                found.append(ChatMessageSystem(content=content))
            case "user":
                found.append(ChatMessageUser(content=content))
            case "assistant":
                calls = [
                    ToolCall(id=call["id"], function=call["name"], arguments=json.loads(call["arguments"]))
                    for call in message["toolCalls"]
                ]
                called |= {call.id: call.function for call in calls}
                found.append(ChatMessageAssistant(content=content, tool_calls=calls or None))
            case "tool":
                name = called[message["toolCallId"]]
                error = ToolCallError("unknown", content) if name in failed else None
                tool = ChatMessageTool(content=content, tool_call_id=message["toolCallId"], function=name, error=error)
                found.append(tool)
    return found


def events_of(task: Json) -> list[Event]:
    """The calls of tools, one a tool, each as long as its mean says; the first at the time of the first action."""
    execution = task["execution"]
    at = datetime.fromisoformat(task["routing"]["timestamp"]) + timedelta(milliseconds=execution["timeToFirstAction"])
    calls = {call["name"]: call for message in execution["messages"] for call in message["toolCalls"]}
    found: list[Event] = []
    for use in execution["toolsUsed"]:
        call, ended = calls[use["toolName"]], at + timedelta(milliseconds=use["averageLatency"])
        arguments = json.loads(call["arguments"])
        found.append(
            ToolEvent(id=call["id"], function=call["name"], arguments=arguments, timestamp=at, completed=ended)
        )
        at = ended
    return found


def log_of(task: Json) -> EvalLog:
    """A log with the task as its one sample."""
    routing, execution, evaluation = task["routing"], task["execution"], task["evaluation"]
    messages, model = messages_of(execution), execution["agentId"]
    error = EvalError(message=execution["failureReason"] or "", traceback="", traceback_ansi="")
    sample = EvalSample(
        id=task["name"],
        epoch=1,
        input=routing["description"],
        target="",
        messages=messages,
        events=events_of(task),
        output=ModelOutput.from_content(model, messages[-1].text),
        scores={"worth": Score(value=evaluation["overallScore"])},
        model_usage={
            model: ModelUsage(
                input_tokens=execution["tokensUsed"] - execution["outputTokens"],
                output_tokens=execution["outputTokens"],
                total_tokens=execution["tokensUsed"],
                reasoning_tokens=execution["thinkingTokens"],
            )
        },
        started_at=routing["timestamp"],
        total_time=execution["latencyMs"] / 1000,
        error=None if execution["success"] else error,
    )
    spec = EvalSpec(
        created=routing["timestamp"],
        task=routing["taskType"],
        dataset=EvalDataset(name="native"),
        model=model,
        config=EvalConfig(),
    )
    return EvalLog(status="success", eval=spec, samples=[sample])


def main(native: Path, folder: Path) -> None:
    """Write each task in both forms of a log."""
    for line in native.read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        log = log_of(task)
        for form in ("eval", "json"):
            write_eval_log(log, str(folder / f"{task['name']}.{form}"), format=form)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)
