"""What the service does at once, how long it takes for it, and what conversations are taken for."""

from pydantic import Field

from flywheel.settings_section import Section


class ServiceSettings(Section):
    """Bounds of the tasks that come over HTTP. Who comes beyond them is told when to come again."""

    max_tasks: int = Field(200, gt=0, description="run at once in this process")
    max_tasks_of_tenant: int = Field(100, gt=0, description="of these, of one tenant")
    task_timeout_s: float = Field(
        600.0, gt=0, le=86_400, description="for a task that names no limit; none takes longer"
    )
    drain_s: float = Field(10.0, ge=0, description="for running tasks to end when the service stops; then cancelled")


class ChatSettings(Section):
    """Chat completions (docs/arbiter.md)."""

    task_type: str = Field("chat", min_length=1, description="of a request that names none; one of task_types")
