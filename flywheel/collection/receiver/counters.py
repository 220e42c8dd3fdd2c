"""What the receiver counts, for Prometheus. No label names a tenant or a key."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

LATENCIES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counters:
    """The receiver's own metrics, from its start on."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.accepted = counter(
            "flywheel_received_items",
            "Records, spans and events that were acknowledged: they are synced to disk.",
            ["signal"],
        )
        self.rejected = counter(
            "flywheel_rejected_items",
            "Records, spans and events that were refused one by one; their senders were told.",
            ["signal", "reason"],
        )
        self.refused = counter(
            "flywheel_refused_requests",
            "Requests that were refused as a whole, by why; nothing of them was acknowledged.",
            ["signal", "reason"],
        )
        self.bytes = counter("flywheel_received_bytes", "Bytes of request bodies, as they were sent.", ["signal"])
        self.latency = Histogram(
            "flywheel_receive_seconds",
            "From the head of a request to its acknowledgement.",
            ["signal"],
            buckets=LATENCIES_S,
            registry=self.registry,
        )
        self.waiting_bytes = gauge("flywheel_receiver_waiting_bytes", "Accepted and not synced yet.")
        self.traces = counter(
            "flywheel_assembled_traces",
            "Traces that became logs (records), said nothing about a task (ignored), or came in part too late (late).",
            ["outcome"],
        )
        self.set_aside = counter(
            "flywheel_set_aside_traces",
            "Traces, or lines of them, that could not be assembled, by the error; they are dead letters now.",
            ["reason"],
        )
        self.failed_rounds = counter(
            "flywheel_failed_assembling_rounds",
            "Rounds in which no trace was assembled, by the error; their spans wait.",
            ["reason"],
        )
        self.dead_letters = gauge(
            "flywheel_dead_letter_files",
            "Files of dead letters of this home: logs that could not be written, spans that were set aside.",
            ["of"],
        )
        self.waiting_spans = gauge("flywheel_waiting_spans", "Spans that wait for the rest of their trace.")
        self.pool_up = gauge(
            "flywheel_pool_metrics_up",
            "1 if this answer has the pool's metrics, 0 if PostgreSQL or the lake could not be read.",
        )
        self.key_outages = counter(
            "flywheel_receiver_database_outages",
            "Requests that went on without PostgreSQL: a key or an Idempotency-Key was judged by memory alone.",
        )

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
