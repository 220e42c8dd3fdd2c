"""``flywheel quickstart``: services, the loop over them, and what it measured."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from flywheel.errors import ConfigurationError
from flywheel.quickstart.console import Display, display_for
from flywheel.quickstart.ledger import Ledger, read_ledger, write_ledger
from flywheel.quickstart.loop import Loop
from flywheel.quickstart.memory import PeakMemory
from flywheel.quickstart.observation import World
from flywheel.quickstart.results import summarize
from flywheel.quickstart.summary import Summary, print_summary, write_summary
from flywheel.services import children
from flywheel.services.dagster_api import DagsterApi
from flywheel.services.endpoints import Endpoints, HomeLock, attach, running, with_database
from flywheel.services.interrupts import Interrupted
from flywheel.services.mlflow_api import MlflowApi
from flywheel.services.preflight import project_root
from flywheel.services.processes import installation_processes
from flywheel.services.supervisor import Services
from flywheel.settings import Settings


def run_quickstart(settings: Settings, *, once: bool, summary_file: Path | None, console: Console) -> Summary:
    """Run the loop to its end, or go on from where it was, and show what it measured.

    Services that already run for this home are used and left running. Otherwise they are started, stay up after the
    loop until Ctrl-C unless ``once``, and are stopped.

    Raises:
        AlreadyRunningError: another quick start goes through the loop of this home.
        FlywheelError: a service or a stage fails; run it again to go on from there.
    """
    display = display_for(console)
    started = time.monotonic()
    settings.home.mkdir(parents=True, exist_ok=True)
    with loop_lock(settings.home) as lock, services_of(settings, display) as (endpoints, check, wait):
        with world_of(settings, endpoints) as world:
            ledger = read_ledger(settings.home)
            ledger.seconds.setdefault("services", time.monotonic() - started)
            run_loop(world, endpoints, display=display, ledger=ledger, check=check)
            summary = summarize(world, ledger, endpoints)
        print_summary(console, summary)
        if summary_file is not None:
            write_summary(summary_file, summary)
        lock.release()  # what stays up is used by others
        if not once:
            stay(console, wait)
    return summary


def loop_lock(home: Path) -> HomeLock:
    """The lock of the one quick start that goes through a home's loop: two would do the same tasks at once."""
    return HomeLock(
        home / "quickstart.lock",
        held=f"another quick start goes through the loop of {home}",
        remedy="wait for its figures, or stop it first; then this one goes on from what is there",
    )


@contextmanager
def services_of(
    settings: Settings, display: Display
) -> Iterator[tuple[Endpoints, Callable[[], None], Callable[[], None] | None]]:
    """Where the services are, how to check that they live, and how to wait for their end where they are ours."""
    found = running(settings)
    if found is not None:
        if found.profile != settings.profile:
            raise ConfigurationError(
                f"the services of {settings.home} run with the profile {found.profile}, not {settings.profile}; "
                f"stop them (`flywheel down`) or choose their profile"
            )
        display.say(f"using the services that process {found.pid} runs for {settings.home}")
        yield found, lambda: still_there(settings), None
        return
    with display.stage("services") as line:
        services = Services(settings, on_progress=lambda message: line.update(message=message))
        endpoints = services.start()
    try:
        display.say(f"Dagster {endpoints.dagster_url}   MLflow {endpoints.mlflow_url}")
        yield endpoints, services.check, services.wait
    finally:
        services.stop()


def still_there(settings: Settings) -> None:
    """Make sure that the services of another process still run.

    Raises:
        NotRunningError: they do not.
    """
    attach(settings)


@contextmanager
def world_of(settings: Settings, endpoints: Endpoints) -> Iterator[World]:
    """Clients of everything that runs, closed at the end of the block."""
    from flywheel.pool.pool import BenchmarkPool

    with (
        BenchmarkPool.open(with_database(settings, endpoints.database_url)) as pool,
        DagsterApi(endpoints.dagster_url) as dagster,
        MlflowApi(endpoints.mlflow_url) as mlflow,
    ):
        yield World(settings=settings, pool=pool, dagster=dagster, mlflow=mlflow)


def run_loop(
    world: World, endpoints: Endpoints, *, display: Display, ledger: Ledger, check: Callable[[], None]
) -> None:
    """The loop, with its memory measured."""
    environment = children.environment(
        world.settings,
        database_url=endpoints.database_url,
        root=project_root(),
        started_at=endpoints.started_at,
        base=os.environ,
    )
    home = world.settings.home
    memory = PeakMemory(lambda: [endpoints.pid, *installation_processes(home)])
    try:
        with memory:
            Loop(world, display=display, ledger=ledger, environment=environment, check=check).run()
    finally:
        ledger.add_memory(memory.gib)
        write_ledger(home, ledger)


def stay(console: Console, wait: Callable[[], None] | None) -> None:
    """Stay up until Ctrl-C, which here is the ordinary end."""
    if wait is None:
        return
    console.print("\nEverything stays up. Ctrl-C stops it.")
    try:
        wait()
    except Interrupted:
        console.print("stopping")
