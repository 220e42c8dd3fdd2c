"""What the HTTP service can be told about the conversations that it serves."""

from pydantic import Field

from flywheel.settings_section import Section


class ChatSettings(Section):
    """Chat completions (docs/arbiter.md)."""

    task_type: str = Field("chat", min_length=1, description="of a request that names none; one of task_types")
