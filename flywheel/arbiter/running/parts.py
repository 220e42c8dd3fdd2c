"""What runs of single tasks share."""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from flywheel.arbiter.agents.slots import Slots
from flywheel.arbiter.agents.strategy import Agent
from flywheel.arbiter.audit_trail.notary import Notary
from flywheel.arbiter.budgets import CoolDown
from flywheel.arbiter.evaluation.evaluator import Evaluator
from flywheel.arbiter.profiles import AgentProfile
from flywheel.arbiter.routing.live import LiveRouter
from flywheel.arbiter.settings import ExecutionSettings
from flywheel.collection.collector import Collector


class Parts(Struct, frozen=True, kw_only=True):
    """What runs of tasks share."""

    router: LiveRouter
    collector: Collector
    evaluator: Evaluator | None
    make_agent: Callable[[AgentProfile], Agent]
    slots: Slots
    settings: ExecutionSettings
    cool_down: CoolDown
    clock: Callable[[], datetime]
    tenant_id: str
    label: str
    notary: Notary | None = None
