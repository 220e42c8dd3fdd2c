"""The sections of the configuration that are the pool's, each field with its unit."""

from datetime import timedelta
from typing import Literal

from pydantic import Field

from flywheel.pool.anonymization.own_types import OwnTypes
from flywheel.pool.anonymization.policy import AnonymizationPolicies
from flywheel.settings_section import Section


class AccessSettings(Section):
    """What a grant of access needs before it is in force. An approver is neither who asked nor who is given it."""

    approval_for_roles: tuple[Literal["rl-trainer", "analyst", "arbiter", "reviewer", "admin"], ...] = Field(
        ("reviewer", "admin"), description="grants of these roles wait for approval"
    )
    approval_for_fields: tuple[Literal["all", "anonymized"], ...] = Field(
        ("all",), description="so do grants of these fields, whatever the role"
    )
    token_days: int = Field(90, gt=0, description="how long a token is good, where its grant does not end earlier")


class PrivacySettings(Section):
    """Noise on rewards that cross tenants, and the budget that it is spent from (docs/privacy.md)."""

    epsilon: float = Field(8.0, gt=0, description="budget: ε that exports may spend per tenant and period")
    delta: float = Field(1e-6, ge=0, lt=1, description="budget: δ that exports may spend per tenant and period")
    period_days: int = Field(365, gt=0, description="days of a period, counted from 1970-01-01 UTC")


class JoiningSettings(Section):
    """How long logs may be late (docs/collection.md). Late logs still complete their task, whenever they come."""

    waiting_days: int = Field(
        7,
        gt=0,
        le=3_650,
        description="that a task waits for a missing log, from its first line's arrival, before quarantine",
    )
    allowed_lateness_minutes: int = Field(
        60,
        ge=0,
        le=43_200,
        description="after a day's end that the watermark must have passed for the day to be complete",
    )

    @property
    def longest_wait(self) -> timedelta:
        """How long a task waits."""
        return timedelta(days=self.waiting_days)

    @property
    def allowed_lateness(self) -> timedelta:
        """How long after its end a day's lines may come."""
        return timedelta(minutes=self.allowed_lateness_minutes)


class HealthSettings(Section):
    """When the pool calls for a person (SPEC section 11). Fractions are 0–1: a tenth is 0.1."""

    points_per_hour: int = Field(10, gt=0, description="points; fewer in a full hour are too few")
    settle_minutes: int = Field(15, ge=0, description="after which the points of an hour have passed the pool")
    inactive_after_hours: int = Field(672, gt=0, description="without a point: nobody collects, and none is missed")
    window_hours: int = Field(24, gt=0, description="what failures, quality and tool adoption are judged over")
    min_tasks: int = Field(20, gt=0, description="judged tasks; the failures of fewer are not judged")
    failed_fraction: float = Field(0.1, gt=0, lt=1, description="of the tasks judged; more is too much")
    drop_fraction: float = Field(0.1, gt=0, lt=1, description="relative; quality or adoption falls so far or farther")
    drop_z: float = Field(4.0, gt=0, description="standard errors of a drop that are still chance")
    baseline_days: int = Field(30, gt=0, description="days of each earlier period that tells what is usual")
    drift_points: int = Field(50, gt=1, description="points of a task type whose mean reward is compared")
    z: float = Field(3.0, gt=0, description="standard errors of a drift that are still chance")


class SecondDetectorSettings(Section):
    """Presidio as an independent reader of anonymized points (``pip install 'arbiter-flywheel[presidio]'``)."""

    points: int = Field(200, ge=0, description="of a day that it reads, chosen by their ids; 0: none")
    model: str = Field("", description="spaCy pipeline, a package or a folder, that finds names; empty: patterns alone")
    types: tuple[str, ...] = Field(
        (
            "CREDIT_CARD",
            "EMAIL_ADDRESS",
            "IBAN_CODE",
            "IP_ADDRESS",
            "MAC_ADDRESS",
            "PERSON",
            "PHONE_NUMBER",
            "US_ITIN",
            "US_SSN",
        ),
        description="what it looks for, by presidio's names; PERSON takes a model",
    )
    min_score: float = Field(0.5, ge=0, le=1, description="presidio's confidence; a lone phone number has 0.4")
    halts_on: tuple[str, ...] = Field(
        ("CREDIT_CARD", "EMAIL_ADDRESS", "IBAN_CODE"),
        description="types of which one is a privacy violation; others are reported and hold nothing back",
    )


class AnonymizationSettings(Section, OwnTypes):
    """What anonymizing does beyond what it always does."""

    policies: AnonymizationPolicies = Field(AnonymizationPolicies(), description="for all tenants and for single ones")
    second_detector: SecondDetectorSettings = SecondDetectorSettings()
    ner_model: str = Field(
        "", description="spaCy pipeline, a package or a folder, whose persons are replaced too; empty: rules alone"
    )


class RoutingStatisticsSettings(Section):
    """The statistics that routers are answered from memory."""

    refresh_s: float = Field(30.0, gt=0, description="seconds between refreshes")
    window_days: int = Field(30, gt=0, description="UTC days that count as recent, today included")
