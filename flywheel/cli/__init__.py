"""The command line: ``flywheel COMMAND``.

Exit codes: 0 done, 1 an error with one sentence on stderr, 2 wrong usage, 3 the quick start's loop ran to its end and
registered no candidate, 128 + n ended by signal n.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from flywheel.cli.access import access
from flywheel.cli.agents import agents
from flywheel.cli.audit import audit
from flywheel.cli.collection import collection
from flywheel.cli.diff import diff
from flywheel.cli.erase import erase
from flywheel.cli.errors import Commands
from flywheel.cli.evaluate import evaluate, spec
from flywheel.cli.ingest import ingest
from flywheel.cli.judge import judge
from flywheel.cli.keys import keys
from flywheel.cli.models import models
from flywheel.cli.pii import pii
from flywheel.cli.pool import pool
from flywheel.cli.privacy import privacy
from flywheel.cli.quarantine import quarantine
from flywheel.cli.quickstart import quickstart
from flywheel.cli.reports import reports
from flywheel.cli.router import router
from flywheel.cli.rubric import rubric
from flywheel.cli.serve import serve
from flywheel.cli.services import down, status, up
from flywheel.cli.tasks import tasks

if TYPE_CHECKING:
    from flywheel.settings import Settings


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done, 1 an error, 2 wrong usage, 3 the quick start registered no candidate.",
)
@click.option("--home", metavar="DIR", help="Folder of everything that is written. [default: .flywheel]")
@click.option("--profile", metavar="NAME", help="quickstart, smoke or production. [default: quickstart]")
@click.version_option(package_name="arbiter-flywheel", prog_name="flywheel")
@click.pass_context
def main(context: click.Context, home: str | None, profile: str | None) -> None:
    """Let a team's agents get better by working: arbiter, benchmark data pool, training, rollout.

    \b
    Examples:
      flywheel quickstart            the whole loop on real input
      flywheel up                    the services alone
      flywheel ingest logs.jsonl     bring in logs of your own arbiter
      flywheel pool status           what became of every line
      flywheel quarantine list       lines that failed a gate
    """
    context.obj = settings_loader(home=home, profile=profile)


def settings_loader(**options: str | None) -> "Callable[[], Settings]":
    """Reads the settings when a command asks for them, so that ``--help`` does not wait for it."""

    def load() -> "Settings":
        from flywheel.settings import Settings

        return Settings.load(**{name: value for name, value in options.items() if value})

    return load


pool.add_command(erase)
COMMANDS = (
    *(up, down, status, serve, quickstart, ingest, collection),
    *(pool, quarantine, privacy, access, keys, pii, agents, router, rubric, judge, models, tasks),
    *(diff, evaluate, spec, audit, reports),
)
for command in COMMANDS:
    main.add_command(command)
