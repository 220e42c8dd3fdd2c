"""An agent that is a program: a task as JSON on standard input, an answer as JSON on standard output."""

import asyncio
import os
import signal
import time
from asyncio import StreamReader, StreamWriter, SubprocessTransport
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from flywheel.arbiter.agents.exchange import Reply, answer_of, given, shortened
from flywheel.arbiter.agents.strategy import Answer, failed_answer
from flywheel.errors import AgentError
from flywheel.tasks.prompt import PromptStyle, prompt_messages
from flywheel.tasks.source import AgentTask

LARGEST_OUTPUT = 16 * 1024 * 1024
"""Bytes of one answer; a program that writes more is ended."""
KEPT_OF_STDERR = 4096
PIECE = 65_536
OWN_VARIABLES = "FLYWHEEL_"
"""Our own configuration, secrets among it, is not handed on."""


class CommandAgent:
    """Starts the program anew for each task, without a shell and in a process group of its own.

    What is left of the group is killed when the program has ended, when its time is over, and when nobody waits for it
    any more.
    """

    def __init__(self, command: Sequence[str], *, prompt: PromptStyle, timeout_s: float) -> None:
        """Nothing is started before the first task."""
        self._command = tuple(command)
        self._prompt: PromptStyle = prompt
        self._timeout_s = timeout_s

    async def ask(self, task: AgentTask) -> Answer:
        """The program's answer.

        Raises:
            AgentError: it cannot be started.
        """
        messages = prompt_messages(task, self._prompt)
        started = time.perf_counter()
        reply, timed_out = await self._run(msgspec.json.encode(given(task, messages)))
        latency_ms = (time.perf_counter() - started) * 1000
        if isinstance(reply, str):
            reason = f"{self._command[0]}: {shortened(reply)}"
            return failed_answer(messages, reason, latency_ms=latency_ms, timed_out=timed_out)
        return answer_of(reply, messages, latency_ms=latency_ms, task=task)

    async def _run(self, given_task: bytes) -> tuple[Reply | str, bool]:
        """The reply, or in words why there is none, and whether that is since its time was over."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        loop = asyncio.get_running_loop()
        try:
            transport, protocol = await loop.subprocess_exec(
                lambda: SubprocessStreamProtocol(limit=PIECE, loop=loop),
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise AgentError(f"the command {self._command[0]!r} cannot be started: {error}") from error
        process = Process(transport, protocol, loop)
        stderr = bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                output = await _exchange(process, given_task, stderr)
        except TimeoutError:
            return _with_stderr(f"no answer within {self._timeout_s:g} s", stderr), True
        finally:
            _kill(process)  # also when it ended by itself: what it started and left behind is its group still
            _close_pipes(transport)
            await asyncio.shield(process.wait())
        return _reply(process.returncode, output, stderr), False


async def _exchange(process: Process, given_task: bytes, stderr: bytearray) -> bytes | None:
    """What the program wrote until it ended, of stderr the last part; None where it wrote too much."""
    assert process.stdin is not None, "all three are pipes"
    assert process.stdout is not None, "all three are pipes"
    assert process.stderr is not None, "all three are pipes"
    async with asyncio.TaskGroup() as group:
        group.create_task(_write(process.stdin, given_task))
        group.create_task(_keep_end(process.stderr, stderr))
        output = group.create_task(_read(process, process.stdout))
    await process.wait()
    return output.result()


async def _write(stdin: StreamWriter, content: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # a program need not read what it is given
        stdin.write(content)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()


async def _read(process: Process, stdout: StreamReader) -> bytes | None:
    content = bytearray()
    while piece := await stdout.read(PIECE):
        content += piece
        if len(content) > LARGEST_OUTPUT:
            _kill(process)
            return None
    return bytes(content)


async def _keep_end(stream: StreamReader, kept: bytearray) -> None:
    while piece := await stream.read(PIECE):
        kept += piece
        del kept[:-KEPT_OF_STDERR]


def _close_pipes(transport: SubprocessTransport) -> None:
    """Who left the group with a pipe in hand would otherwise be waited for, as long as it likes."""
    for number in range(3):
        pipe = transport.get_pipe_transport(number)
        if pipe is not None:
            pipe.close()


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):  # nothing of it is left
        os.killpg(process.pid, signal.SIGKILL)


def _reply(exit_code: int | None, output: bytes | None, stderr: bytearray) -> Reply | str:
    if output is None:
        return f"it wrote more than {LARGEST_OUTPUT:,} bytes and was ended"
    if exit_code:
        ended = f"ended by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
        return _with_stderr(ended, stderr)
    try:
        return msgspec.json.decode(output, type=Reply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _with_stderr(f"its output is no answer: {error}", stderr)


def _with_stderr(reason: str, stderr: bytearray) -> str:
    told = stderr.decode(errors="replace").strip()
    return f"{reason}; its stderr ends: {told}" if told else reason
