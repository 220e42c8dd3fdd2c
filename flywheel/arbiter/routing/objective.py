"""What routing is after: quality, less what it costs in money and time; and what it must never do."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from flywheel.arbiter.agents.honoured import not_honoured
from flywheel.arbiter.registry import AgentProfile
from flywheel.arbiter.routing.task import RoutedTask

LARGEST_PENALTY = 1.0
"""Cost and latency together never weigh more than the whole of quality."""


class Objective(Struct, frozen=True, kw_only=True):
    """Exchange rates and hard limits. A utility is in units of quality: 1 is the difference of perfect and worthless.

    Attributes:
        quality_per_usd: quality that one US dollar less is worth.
        quality_per_second: quality that one second less is worth.
        max_usd_per_million_tokens: agents with a higher price, of input or output, get no task, whatever else; None:
            no limit.
        must_have: specializations that every agent must have to get any task.
    """

    quality_per_usd: float = 0.0
    quality_per_second: float = 0.0
    max_usd_per_million_tokens: float | None = None
    must_have: tuple[str, ...] = ()

    @property
    def priced(self) -> bool:
        """Whether anything but quality counts."""
        return self.quality_per_usd > 0 or self.quality_per_second > 0

    def penalty(self, usd: NDArray[np.float64], latency_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        """What mean cost and mean latency take from quality, 0–1."""
        total = self.quality_per_usd * usd + self.quality_per_second * latency_ms / 1000.0
        limited: NDArray[np.float64] = np.minimum(total, LARGEST_PENALTY)
        return limited

    def refusal(self, profile: AgentProfile, task: RoutedTask) -> str | None:
        """Why this agent must not have the task; None where it may."""
        limit = self.max_usd_per_million_tokens
        price = max(profile.usd_per_million_input_tokens, profile.usd_per_million_output_tokens)
        if limit is not None and price > limit:
            return f"{profile.id} costs {price:g} USD per million tokens, limit {limit:g}"
        missing = sorted({*self.must_have, *task.must_have} - set(profile.specializations))
        if missing:
            return f"{profile.id} is not specialized in {', '.join(missing)}"
        unable = not_honoured(profile.kind, task.needs)
        return f"{profile.id}, of kind {profile.kind}, cannot honour {', '.join(unable)}" if unable else None
