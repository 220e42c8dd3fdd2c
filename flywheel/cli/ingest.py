"""``flywheel ingest``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flywheel.cli.output import print_json

if TYPE_CHECKING:
    from flywheel.collection.fidelity import FidelityReport
    from flywheel.collection.ingest import Request
    from flywheel.settings import Settings

OWN_FORMATS = (
    "native, agentdojo, tau2, tau-bench, autogpt-benchmarks, inspect-ai, otlp, mlflow, langfuse, atif, openai-chat"
)


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--format", "format_name", default="", metavar="F", help=f"One of {OWN_FORMATS}; default: recognized.")
@click.option("--tenant", default="", metavar="T", help="Whose traces they are; default: the setting tenant_id.")
@click.option("--task-type", default="", metavar="TYPE", help="Registered task type of all of them.")
@click.option(
    "--mapping",
    "mapping_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML or YAML: which score is the reward, and more (docs/importers.md).",
)
@click.option(
    "--watch",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Take what comes into a folder until it is interrupted.",
)
@click.option(
    "--every",
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="With --watch: between looks.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; with --watch one a line.")
@click.pass_obj
def ingest(
    load: "Callable[[], Settings]",
    *,
    paths: tuple[str, ...],
    format_name: str,
    tenant: str,
    task_type: str,
    mapping_file: Path | None,
    watch: Path | None,
    every: float,
    as_json: bool,
) -> None:
    """Bring in logs and traces for the pool.

    PATHS are files, folders or globs; - is stdin. gzip, zstd, tar and zip are opened. A file that was taken
    before adds nothing. The report says what the source did not have; the pool judges each point afterwards.

    \b
    Examples:
      flywheel ingest logs.jsonl
      flywheel ingest results/ --json
      zcat logs.jsonl.gz | flywheel ingest -
      flywheel ingest export.jsonl.zst --format langfuse --mapping rewards.toml
      flywheel ingest --watch /var/traces
    """
    if bool(paths) == (watch is not None):
        raise click.UsageError("give PATHS, or a folder with --watch")
    settings = load()
    request = request_of(
        settings, format_name=format_name, tenant=tenant, task_type=task_type, mapping_file=mapping_file
    )
    if watch is not None:
        follow(settings, watch, request, every=every, as_json=as_json)
        return
    from flywheel.collection import ingest as collection

    with progress_bar() as progress:
        report = collection.ingest(
            paths, settings.segments_dir, request, progress=progress, processes=processes_of(settings)
        )
    say_if_halted(settings)
    show(report, as_json=as_json)
    if report.rejected and not report.points + report.waiting + report.duplicates:
        raise click.exceptions.Exit(1)


def request_of(
    settings: "Settings", *, format_name: str, tenant: str, task_type: str, mapping_file: Path | None
) -> "Request":
    """The options as what is asked of the importers.

    Raises:
        ConfigurationError: a task type is not registered, or the mapping cannot be used.
    """
    from flywheel.collection.ingest import Request
    from flywheel.collection.mapping import Mapping, load_mapping
    from flywheel.errors import ConfigurationError

    mapping = load_mapping(mapping_file) if mapping_file else Mapping()
    unknown = {task_type, *mapping.task_types.values()} - {"", *settings.task_types}
    if unknown:
        raise ConfigurationError(
            f"unknown task types: {', '.join(sorted(unknown))}; add them to the setting task_types if they are right"
        )
    return Request(tenant_id=tenant or settings.tenant_id, format=format_name, task_type=task_type, mapping=mapping)


def follow(settings: "Settings", folder: Path, request: "Request", *, every: float, as_json: bool) -> None:
    """Take what comes into a folder, until the process is interrupted or told to end."""
    from flywheel.collection.watching import watched

    if not as_json:
        click.echo(f"watching {folder}; interrupt to end", err=True)
    try:
        for report in watched(folder, settings.segments_dir, request, every_s=every, processes=processes_of(settings)):
            show(report, as_json=as_json, in_one_line=True)
    except KeyboardInterrupt:
        click.echo("ended; what was taken is safe", err=True)


def processes_of(settings: "Settings") -> int:
    """How many processes may read a large document."""
    from flywheel.pool.workers import cores

    return settings.pool_processes or cores()


def show(report: "FidelityReport", *, as_json: bool, in_one_line: bool = False) -> None:
    """The report for people or programs; rejections with their places go to stderr."""
    for example in report.examples:
        click.echo(str(example), err=True)
    if as_json and in_one_line:
        import msgspec

        click.echo(msgspec.json.encode(report))
    elif as_json:
        print_json(report)
    else:
        click.echo("\n".join(sentences(report)))


def sentences(report: "FidelityReport") -> Iterator[str]:
    """The report in words."""
    known = f", {report.known_files:,} known" if report.known_files else ""
    yield f"{report.format}: {report.read:,} records of {report.files:,} files{known}, {report.seconds:.1f} s"
    yield (
        f"  {report.points:,} points, {report.waiting:,} waiting, {report.duplicates:,} duplicates, "
        f"{sum(report.rejected.values()):,} rejected; {report.tool_calls:,} tool calls, {len(report.agents)} agents"
    )
    for reason, count in sorted(report.rejected.items(), key=lambda item: -item[1]):
        yield f"  rejected: {count:,} {reason}"
    lacking = [(name, share) for name, share in report.fields.items() if share < 1]
    if lacking:
        absent = ", ".join(f"{name} {1 - share:.0%}" for name, share in lacking)
        yield f"  not in the source: {absent}"
    for rule, count in sorted(report.rules.items(), key=lambda item: -item[1]):
        yield f"  by rule: {count:,} {rule}"
    if report.points:
        fit = report.fit
        yield f"  fit for SFT by their form: {fit.get('sft', 0):,}; for on-policy RL: {fit.get('onPolicyRl', 0):,}"


@contextmanager
def progress_bar() -> "Iterator[Callable[[str, int], None] | None]":
    """A bar on stderr where that is a terminal; what is yielded is told of bytes as they are read."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, object] = {}

        def passed(path: str, size: int) -> None:
            if path not in tasks:
                whole = None if path == "-" else Path(path).stat().st_size
                tasks.clear()
                for task in bar.task_ids:
                    bar.remove_task(task)
                tasks[path] = bar.add_task(Path(path).name, total=whole)
            bar.advance(bar.task_ids[-1], size)

        yield passed


def say_if_halted(settings: "Settings") -> None:
    """Say on stderr that what was taken waits, where the pool is halted. Without services nobody knows of a halt."""
    from flywheel.cli.connection import pool_of
    from flywheel.errors import DatabaseError, NotRunningError
    from flywheel.pool.halts import halted_because, open_halts

    try:
        with pool_of(settings) as opened:
            halted = halted_because(open_halts(opened))
    except NotRunningError:
        return
    except DatabaseError as error:
        click.echo(f"the lines were taken; whether the pool is halted cannot be asked: {error}", err=True)
        return
    if halted:
        click.echo(f"the lines were taken and wait: {halted}", err=True)
