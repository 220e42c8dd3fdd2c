"""Outcomes are remembered and learned from, each task once: the one way."""

from collections.abc import Sequence

from sqlalchemy import Connection

from flywheel.arbiter.outcomes import Outcome, record_new
from flywheel.arbiter.routing.state import learn
from flywheel.settings import RoutingSettings


def settle(connection: Connection, outcomes: Sequence[Outcome], routing: RoutingSettings) -> list[Outcome]:
    """Settle outcomes in the caller's transaction; returns those of tasks that had none."""
    new = record_new(connection, outcomes)
    learn(connection, new, half_life_days=routing.half_life_days or None)
    return new
