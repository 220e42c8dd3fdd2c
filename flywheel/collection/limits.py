"""What the receiver takes from a client, and how long it waits: each bound with its unit."""

from pydantic import Field

from flywheel.settings_section import Section


class ReceiverSettings(Section):
    """The receiver's bounds. What is beyond them is refused with the reason, never cut."""

    max_body_bytes: int = Field(16 * 2**20, gt=0, description="of a request as it is sent, compressed or not")
    max_decoded_bytes: int = Field(64 * 2**20, gt=0, description="of a request after its content encoding")
    max_items: int = Field(10_000, gt=0, description="records, spans or events of one request")
    max_item_bytes: int = Field(4 * 2**20, gt=0, le=64 * 2**20, description="of one record or span")
    max_depth: int = Field(32, gt=0, le=100, description="nesting of a record, or of a span's attributes")
    max_waiting_bytes: int = Field(256 * 2**20, gt=0, description="of all requests under way; more are told to wait")
    body_timeout_s: float = Field(30.0, gt=0, description="for a request's body to arrive")
    header_timeout_s: float = Field(10.0, gt=0, description="for a request's head to arrive")
    write_timeout_s: float = Field(20.0, gt=0, description="for the disk; then the client is told to try again")
    items_per_s: float = Field(5_000.0, gt=0, description="of one key, on average; a refusal says when to try again")
    burst_items: int = Field(20_000, gt=0, description="of one key at once")
    min_free_bytes: int = Field(256 * 2**20, ge=0, description="left on the disk; with less, nothing is accepted")
    key_cache_s: float = Field(10.0, gt=0, description="after which a revoked key is refused at the latest")
    key_outage_s: float = Field(300.0, ge=0, description="how long known keys are good while PostgreSQL is away")
    idempotency_hours: float = Field(24.0, gt=0, description="how long an Idempotency-Key is remembered")
    segment_age_s: float = Field(60.0, gt=0, description="after which a segment is closed, so that the pool sees it")
    trace_settle_s: float = Field(10.0, gt=0, description="without a new span, after which a rooted trace is complete")
    trace_wait_s: float = Field(900.0, gt=0, description="without a new span, after which a trace is used as it is")
    trace_memory_s: float = Field(3600.0, gt=0, description="how long late spans of a finished trace are recognized")
