"""Events of tasks: a stream ends with an event, whatever happens meanwhile."""

import asyncio

from flywheel.api.task_events import awaited_elsewhere
from flywheel.arbiter.running.claims import Known
from flywheel.errors import DatabaseError


def test_a_stream_that_cannot_be_followed_any_more_says_why() -> None:
    def known() -> Known | None:
        raise DatabaseError("PostgreSQL cannot be reached")

    async def events() -> list[bytes]:
        return [event async for event in awaited_elsewhere(known)]

    [told] = asyncio.run(events())
    assert told.startswith(b"event: problem\n")
    assert b"PostgreSQL cannot be reached" in told
    assert b'"status":503' in told
