"""Tasks that the service runs: whoever follows one hears of everything at once, however many follow it."""

import asyncio

from flywheel.api.running_tasks import RunningTask
from flywheel.arbiter.running.streaming import TextDelta, Watch

LONG_S = 60.0


class Telling:
    """Stands for an arbiter whose task tells what a test says, and ends without a result."""

    def __init__(self, pieces: int) -> None:
        self._pieces = pieces
        self.go_on = asyncio.Event()

    async def aexecute_task(self, _: object, *, watch: Watch, **__: object) -> None:
        for number in range(self._pieces):
            assert watch.on_text is not None
            watch.on_text(TextDelta(attempt=1, iteration=1, text=str(number)))
            await self.go_on.wait()
            self.go_on.clear()


def test_who_follows_slowly_misses_nothing_that_another_one_has_heard() -> None:
    async def heard() -> list[str]:
        arbiter = Telling(2)
        running = RunningTask(arbiter, None, followed=True, irrevocable=False)  # type: ignore[arg-type]
        slow, quick = running.events(every_s=LONG_S), running.events(every_s=LONG_S)
        found = [await anext(slow), await anext(quick)]
        another = asyncio.ensure_future(anext(quick))
        await asyncio.sleep(0)  # the quick one waits for the next piece, the slow one holds the first still
        arbiter.go_on.set()
        found += [await another, await anext(slow)]
        arbiter.go_on.set()
        return [event.text for event in found if isinstance(event, TextDelta)]

    assert asyncio.run(asyncio.wait_for(heard(), timeout=10)) == ["0", "0", "1", "1"]
