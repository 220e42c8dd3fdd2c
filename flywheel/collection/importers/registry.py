"""The formats there are: the project's own and those of installed packages."""

import importlib
import importlib.metadata
from functools import cache

from flywheel.collection.importers.interface import AnyImporter, Opening
from flywheel.errors import ConfigurationError

GROUP = "flywheel.importers"
OWN = {
    "native": "flywheel.collection.importers.native:Native",
    "agentdojo": "flywheel.collection.importers.agentdojo:AgentDojo",
    "tau2": "flywheel.collection.importers.tau2:Tau2",
    "tau-bench": "flywheel.collection.importers.tau_bench:TauBench",
    "autogpt-benchmarks": "flywheel.collection.importers.autogpt_benchmarks:AutoGptBenchmarks",
    "inspect-ai": "flywheel.collection.importers.inspect_ai:InspectAi",
    "otlp": "flywheel.collection.importers.otlp_files:OtlpFiles",
    "mlflow": "flywheel.collection.importers.mlflow_traces:MlflowTraces",
    "langfuse": "flywheel.collection.importers.langfuse:Langfuse",
    "atif": "flywheel.collection.importers.atif:Atif",
    "openai-chat": "flywheel.collection.importers.openai_chat:OpenAiChat",
}
"""In the order in which they are asked: what demands most of a document first."""


@cache
def importers() -> tuple[AnyImporter, ...]:
    """One importer of each format. Those of other packages are asked first: who installs one wants it.

    Raises:
        ConfigurationError: one of another package cannot be loaded.
    """
    others = [of_entry_point(entry) for entry in importlib.metadata.entry_points(group=GROUP)]
    return (*others, *map(of_path, OWN.values()))


def of_entry_point(entry: importlib.metadata.EntryPoint) -> AnyImporter:
    """The importer of an installed package.

    Raises:
        ConfigurationError: it cannot be loaded.
    """
    try:
        importer: AnyImporter = entry.load()()
    except Exception as error:
        raise ConfigurationError(f"the importer {entry.name} ({entry.value}) cannot be loaded: {error}") from error
    return importer


def of_path(path: str) -> AnyImporter:
    """The importer of a module of the project."""
    module, _, name = path.partition(":")
    importer: AnyImporter = getattr(importlib.import_module(module), name)()
    return importer


def importer_of(name: str) -> AnyImporter:
    """The importer of a format.

    Raises:
        ConfigurationError: there is none of this name.
    """
    for importer in importers():
        if importer.name == name:
            return importer
    known = ", ".join(importer.name for importer in importers())
    raise ConfigurationError(f"there is no importer for the format {name!r}; there are {known}")


def recognized(opening: Opening) -> AnyImporter | None:
    """The importer whose format a document has; None if no one knows it."""
    return next((importer for importer in importers() if importer.recognizes(opening)), None)
