"""From configuration to a strategy and a router."""

from collections.abc import Sequence
from typing import get_args

from sqlalchemy import Engine

from flywheel.arbiter.registry import AgentProfile, AgentRegistry
from flywheel.arbiter.routing.belief import Beliefs
from flywheel.arbiter.routing.capability import CapabilityMatch
from flywheel.arbiter.routing.epsilon_greedy import EpsilonGreedy
from flywheel.arbiter.routing.linear import ContextualThompson, LinearEvidence
from flywheel.arbiter.routing.load_balance import LoadBalance
from flywheel.arbiter.routing.objective import Objective
from flywheel.arbiter.routing.priors import Prior
from flywheel.arbiter.routing.router import Router
from flywheel.arbiter.routing.state import BanditState
from flywheel.arbiter.routing.strategy import RoutingStrategy
from flywheel.arbiter.routing.thompson import ThompsonSampling
from flywheel.arbiter.routing.ucb import UpperConfidenceBound
from flywheel.settings import RoutingSettings, StrategyName

STRATEGY_NAMES: tuple[StrategyName, ...] = get_args(StrategyName)


def build_strategy(name: StrategyName, linear: LinearEvidence) -> RoutingStrategy:
    """The strategy of this name with its usual numbers; ``linear`` is what the contextual one knows."""
    strategies: dict[StrategyName, RoutingStrategy] = {
        "thompson": ThompsonSampling(),
        "ucb": UpperConfidenceBound(),
        "epsilon-greedy": EpsilonGreedy(),
        "contextual": ContextualThompson(evidence=linear),
        "capability-match": CapabilityMatch(),
        "load-balance": LoadBalance(),
    }
    return strategies[name]


def router_from(engine: Engine, active: Sequence[AgentProfile], settings: RoutingSettings) -> Router:
    """A router over these agents that knows what the database knows at this moment.

    Raises:
        ConfigurationError: there is no agent.
    """
    state = BanditState(engine, half_life_days=settings.half_life_days or None)
    beliefs = Beliefs(
        state.table(),
        families={profile.id: profile.model_family for profile in AgentRegistry(engine).list()},
        prior=Prior(stated=settings.priors),
        objective=Objective(
            quality_per_usd=settings.quality_per_usd,
            quality_per_second=settings.quality_per_second,
            max_usd_per_million_tokens=settings.max_usd_per_million_tokens,
            must_have=settings.must_have,
        ),
    )
    # Only the contextual strategy looks at the regressions; they are learned whatever the strategy.
    known = state.regressions() if settings.strategy == "contextual" else LinearEvidence()
    strategy = build_strategy(settings.strategy, known)
    return Router(active, beliefs, strategy=strategy, max_active=settings.max_active)
