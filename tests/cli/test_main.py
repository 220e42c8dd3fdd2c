import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from flywheel.cli import main
from flywheel.cli.errors import Commands
from flywheel.errors import ServiceError

SLEEP = """
import time, click
from flywheel.cli import main

def sleep():
    print("asleep", flush=True)
    time.sleep(30)

main.add_command(click.Command("sleep", callback=sleep))
main(["sleep"])
"""
HEAVY = ("pydantic", "sqlalchemy", "rich", "httpx", "polars", "torch", "dagster", "mlflow")


def all_commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += all_commands(command, (*path, name))
    return found


def is_group(path: tuple[str, ...]) -> bool:
    found: click.Command = main
    for name in path:
        assert isinstance(found, click.Group)
        found = found.commands[name]
    return isinstance(found, click.Group)


@pytest.mark.parametrize("path", all_commands(main), ids=" ".join)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert f"flywheel {' '.join(path)}" in result.output.split("Example", 1)[1]


@pytest.mark.parametrize("group", [(), *(path for path in all_commands(main) if is_group(path))], ids=" ".join)
def test_a_group_says_of_each_command_its_whole_first_sentence(group: tuple[str, ...]) -> None:
    listed = CliRunner().invoke(main, [*group, "--help"], terminal_width=80).output.split("Commands:")[1]
    assert listed.strip()
    assert "..." not in listed


def test_help_waits_for_no_heavy_library() -> None:
    script = f"import sys, flywheel.cli; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flywheel.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_an_error_is_one_sentence_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    done = run("--home", str(tmp_path / "none"), "status", "--json")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"flywheel: no services are running for {tmp_path}/none; start them with `flywheel up`\n"


def test_a_misspelled_setting_is_named() -> None:
    done = run("status", FLYWHEEL_PORTS__DAGSTER="often")
    assert done.returncode == 1
    assert "ports.dagster" in done.stderr
    assert "Traceback" not in done.stderr
    unknown = run("status", FLYWHEEL_GRPO__MAX_STEP="3")
    assert unknown.stderr == "flywheel: configuration cannot be used: grpo.max_step: there is no such setting\n"


def test_wrong_usage_is_exit_code_2() -> None:
    assert run("tasks", "run").returncode == 2
    assert run("unheard-of").returncode == 2


def test_a_signal_is_exit_code_128_and_its_number() -> None:
    process = subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"asleep\n"
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 143
    assert time.monotonic() - started < 10


def test_a_library_that_is_not_installed_is_said_with_what_to_install() -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.command("train")
    def train() -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    result = CliRunner().invoke(group, ["train"])
    assert result.exit_code == 1
    assert result.stderr == "flywheel: torch is not installed; pip install 'arbiter-flywheel[platform,training]'\n"


def test_an_error_of_our_own_code_is_not_hidden() -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.command("broken")
    def broken() -> None:
        raise ZeroDivisionError

    assert isinstance(CliRunner().invoke(group, ["broken"]).exception, ZeroDivisionError)


def test_an_error_on_purpose_keeps_its_lines() -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.command("up")
    def up() -> None:
        raise ServiceError("mlflow ended with exit code 1. The end of mlflow.log:\nno space left")

    result = CliRunner().invoke(group, ["up"])
    assert result.exit_code == 1
    assert result.stderr.endswith("mlflow.log:\nno space left\n")


def test_who_reads_the_first_lines_alone_gets_no_word_of_an_error() -> None:
    group = Commands()

    @group.command()
    def long() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    result = CliRunner().invoke(group, ["long"])
    assert (result.exit_code, result.output) == (1, "")
