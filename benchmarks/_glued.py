"""What a team would glue together: pydantic models, a dictionary that joins, a row insert for each point."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel
from sqlalchemy import Boolean, Column, DateTime, Double, Engine, Integer, MetaData, Table, Text, insert
from sqlalchemy.dialects.postgresql import JSONB

Score = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]

metadata = MetaData()
points = Table(
    "glued_points",
    metadata,
    Column("task_id", Text, primary_key=True),
    Column("tenant_id", Text),
    Column("timestamp", DateTime(timezone=True)),
    Column("task_type", Text),
    Column("agent_id", Text),
    Column("success", Boolean),
    Column("overall_score", Double),
    Column("latency_ms", Double),
    Column("tokens_used", Integer),
    Column("payload", JSONB),
)


class Wire(BaseModel):
    """Camel case on the wire; fields that are not named here pass through."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class Message(Wire):
    """A turn."""

    role: str
    content: str | None = None


class ToolUse(Wire):
    """How often a tool was called."""

    tool_name: str
    call_count: Count
    success_rate: Score


class RubricScores(Wire):
    """The six scores."""

    format: Score
    tool: Score
    task: Score
    minimal: Score
    cost: Score
    safety: Score


class Routing(Wire):
    """Routing decision."""

    log: Literal["routing"]
    timestamp: datetime
    tenant_id: str
    task_id: str
    task_type: str
    complexity: Literal["trivial", "standard", "complex"]
    selected_agent_id: str
    confidence: Score


class Execution(Wire):
    """Execution."""

    log: Literal["execution"]
    timestamp: datetime
    task_id: str
    agent_id: str
    success: bool
    latency_ms: Annotated[float, Field(gt=0)]
    tokens_used: Count
    tool_call_count: Count
    tools_used: list[ToolUse] = []
    messages: list[Message] = []


class Evaluation(Wire):
    """Evaluation."""

    log: Literal["evaluation"]
    timestamp: datetime
    task_id: str
    agent_id: str
    rubric_scores: RubricScores
    overall_score: Score


adapter: TypeAdapter[Any] = TypeAdapter(Annotated[Routing | Execution | Evaluation, Field(discriminator="log")])


def glued(lines: Iterator[bytes], engine: Engine) -> int:
    """Decode, join and insert; returns how many points there are."""
    metadata.create_all(engine)
    held: dict[str, dict[str, Any]] = defaultdict(dict)
    count = 0
    with engine.connect() as connection:
        for line in lines:
            log = adapter.validate_json(line)
            parts = held[log.task_id]
            parts[log.log] = log
            if len(parts) == 3:
                connection.execute(insert(points).values(row_of(held.pop(log.task_id))))
                count += 1
                if count % 1_000 == 0:
                    connection.commit()
        connection.commit()
    return count


def row_of(parts: dict[str, Any]) -> dict[str, Any]:
    """The joined point as a row."""
    routing, execution, evaluation = parts["routing"], parts["execution"], parts["evaluation"]
    return {
        "task_id": routing.task_id,
        "tenant_id": routing.tenant_id,
        "timestamp": routing.timestamp,
        "task_type": routing.task_type,
        "agent_id": routing.selected_agent_id,
        "success": execution.success,
        "overall_score": evaluation.overall_score,
        "latency_ms": execution.latency_ms,
        "tokens_used": execution.tokens_used,
        "payload": {name: part.model_dump(mode="json", by_alias=True) for name, part in parts.items()},
    }
