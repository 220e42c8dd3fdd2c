"""The anonymization policy as data (SPEC section 4): one for all tenants, and what single tenants have otherwise."""

import json
from hashlib import blake2b

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

NOISE = {"add_noise_to_rewards", "noise_magnitude"}
"""Fields that exports apply: anonymized points do not depend on them."""


class Declared(BaseModel):
    """Base of the policy's parts: frozen, camelCase as in SPEC or snake_case, and a misspelled field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class AnonymizationPolicy(Declared):
    """What is done to a tenant's points beyond personal data and secrets, which are always replaced."""

    strip_tenant_identifiers: bool = Field(
        True, description="the tenant's id and names in texts become [TENANT]; ids under 3 characters are not searched"
    )
    replace_tenant_ids: bool = Field(True, description="tenantId becomes its keyed hash; cannot be switched off")
    remove_file_names: bool = Field(
        True, description="of absolute paths only suffixes stay; off: file names stay, but directories and users do not"
    )
    remove_variable_names: bool = Field(False, description="names that code declares become var1, func1, class1")
    keep_structure_only: bool = Field(
        False, description="of code, names, comments and string literals become placeholders; numbers stay"
    )
    add_noise_to_rewards: bool = Field(False, description="rewards that leave the tenant get Laplace noise on export")
    noise_magnitude: float = Field(
        0.5, gt=0, description="scale b of that noise, in rewards of 0-1; of one value epsilon is sensitivity / b"
    )
    tenant_names: tuple[str, ...] = Field((), description="what the tenant is called in texts besides its id")

    @field_validator("replace_tenant_ids")
    @classmethod
    def refuse_plain_tenants(cls, value: bool) -> bool:
        """Tenants are always hashed.

        Raises:
            ValueError: they are not to be.
        """
        if not value:
            raise ValueError(
                "tenant ids are always replaced by their keyed hash: access control and erasure find points by it; "
                "remove this setting or set it to true"
            )
        return value

    @property
    def rewrites_code(self) -> bool:
        """Whether code is looked for at all."""
        return self.remove_variable_names or self.keep_structure_only


class AnonymizationPolicies(Declared):
    """The policy of every tenant. A tenant's own entry names what differs; all else is as in ``default``."""

    default: AnonymizationPolicy = AnonymizationPolicy()
    tenants: dict[str, AnonymizationPolicy] = Field(default_factory=dict, description="by tenant id")

    def of(self, tenant_id: str) -> AnonymizationPolicy:
        """The tenant's policy."""
        own = self.tenants.get(tenant_id)
        if own is None:
            return self.default
        return self.default.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    def digest(self, *, salt: bytes) -> str:
        """32 hex digits of all that anonymized points depend on, keyed: it does not tell who the tenants are."""
        everyone = {tenant: self.of(tenant).model_dump(exclude=NOISE) for tenant in sorted(self.tenants)}
        document = json.dumps([self.default.model_dump(exclude=NOISE), everyone], sort_keys=True)
        return blake2b(document.encode(), key=blake2b(salt).digest(), digest_size=16).hexdigest()
