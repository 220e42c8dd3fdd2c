"""What the sections of the configuration have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of the sections: frozen, and a misspelled field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
