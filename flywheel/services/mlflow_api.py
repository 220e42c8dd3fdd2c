"""MLflow's REST API, as far as the platform asks it: the model registry, runs' metrics, a version's files.

Training and Dagster use MLflow's own client; this one is light enough for an agent service, which needs a model's
files and who serves. Written against 3.17.
"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from msgspec import Struct
from msgspec.structs import replace

from flywheel.errors import ServiceAnswerError

ARTIFACT_SCHEME = "mlflow-artifacts:/"
NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"


class ModelVersion(Struct, frozen=True, kw_only=True):
    """One version of a registered model."""

    name: str
    version: int
    aliases: tuple[str, ...]
    tags: dict[str, str]
    run_id: str
    source: str


class MlflowApi:
    """A client of one tracking server. Close it, or use it as a context manager.

    Args:
        url: the server's address.
        timeout_s: longest wait for an answer, or for the next part of a file.
    """

    def __init__(self, url: str, *, timeout_s: float = 60.0) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=timeout_s, trust_env=False)

    def versions(self, name: str) -> list[ModelVersion]:
        """All versions of a registered model, newest first; none where the model does not exist."""
        found: list[ModelVersion] = []
        page = ""
        while True:
            answer = self._get(
                "/api/2.0/mlflow/model-versions/search", filter=f"name='{name}'", max_results="100", page_token=page
            )
            found += [version_of(fields) for fields in answer.get("model_versions", [])]
            page = answer.get("next_page_token", "")
            if not page:
                return sorted(self._with_aliases(name, found), key=lambda version: -version.version)

    def _with_aliases(self, name: str, versions: list[ModelVersion]) -> list[ModelVersion]:
        """Versions with their aliases, which a search leaves out."""
        if not versions:
            return []
        aliases = self.aliases(name)
        return [
            replace(v, aliases=tuple(sorted(alias for alias, number in aliases.items() if number == v.version)))
            for v in versions
        ]

    def aliases(self, name: str) -> dict[str, int]:
        """The aliases of a registered model and the versions they name; empty where the model does not exist."""
        try:
            model = self._get("/api/2.0/mlflow/registered-models/get", name=name)["registered_model"]
        except NotFoundError:
            return {}
        return {alias["alias"]: int(alias["version"]) for alias in model.get("aliases", [])}

    def version(self, name: str, version: int) -> ModelVersion:
        """One version.

        Raises:
            ServiceAnswerError: there is none of this number.
        """
        answer = self._get("/api/2.0/mlflow/model-versions/get", name=name, version=str(version))
        return version_of(answer["model_version"])

    def set_alias(self, name: str, alias: str, version: int) -> None:
        """Let an alias name this version, whatever it named before."""
        body = {"name": name, "alias": alias, "version": str(version)}
        self._call("POST", "/api/2.0/mlflow/registered-models/alias", json=body)

    def delete_alias(self, name: str, alias: str) -> None:
        """Remove an alias; does nothing where there is none."""
        self._call("DELETE", "/api/2.0/mlflow/registered-models/alias", json={"name": name, "alias": alias})

    def set_tag(self, name: str, version: int, *, key: str, value: str) -> None:
        """Set a tag of a version."""
        body = {"name": name, "version": str(version), "key": key, "value": value}
        self._call("POST", "/api/2.0/mlflow/model-versions/set-tag", json=body)

    def metrics(self, run_id: str) -> dict[str, float]:
        """The latest value of each of a run's metrics."""
        run = self._get("/api/2.0/mlflow/runs/get", run_id=run_id)["run"]
        return {metric["key"]: float(metric["value"]) for metric in run["data"].get("metrics", [])}

    def download(self, name: str, version: int, *, cache: Path) -> Path:
        """The folder of a version's files on this machine: ``cache/NAME-vVERSION``, fetched once, whole or not at all.

        Raises:
            ServiceAnswerError: there is no such version, it has no files, or its files are not served by MLflow.
        """
        folder = cache / f"{name}-v{version}"
        if folder.exists():
            return folder
        source = self.version(name, version).source
        if not source.startswith(ARTIFACT_SCHEME):
            raise ServiceAnswerError(
                f"the files of {name} version {version} lie at {source}, which MLflow at {self.url} does not serve"
            )
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=cache))
        try:
            if not self._fetch_folder(source.removeprefix(ARTIFACT_SCHEME).strip("/"), scratch):
                raise ServiceAnswerError(f"{name} version {version} has no files at {source}")
            publish(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return folder

    def _fetch_folder(self, path: str, target: Path) -> int:
        """Download a folder of artifacts and return how many files it held."""
        fetched = 0
        for entry in self._get("/api/2.0/mlflow-artifacts/artifacts", path=path).get("files", []):
            name = Path(entry["path"]).name
            if entry.get("is_dir"):
                (target / name).mkdir()
                fetched += self._fetch_folder(f"{path}/{name}", target / name)
            else:
                self._fetch_file(f"{path}/{name}", target / name)
                fetched += 1
        return fetched

    def _fetch_file(self, path: str, target: Path) -> None:
        try:
            with (
                self._client.stream("GET", f"/api/2.0/mlflow-artifacts/artifacts/{path}") as response,
                target.open("wb") as file,
            ):
                response.raise_for_status()
                for part in response.iter_bytes():
                    file.write(part)
        except httpx.HTTPError as error:
            raise ServiceAnswerError(f"MLflow at {self.url} did not send {path}: {error}") from error

    def _get(self, endpoint: str, /, **parameters: str) -> dict[str, Any]:
        return self._call("GET", endpoint, params={key: value for key, value in parameters.items() if value})

    def _call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, json: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """One request.

        Raises:
            NotFoundError: what it names does not exist.
            ServiceAnswerError: the server does not answer or refuses.
        """
        try:
            response = self._client.request(method, path, params=params, json=json)
            answer: dict[str, Any] = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServiceAnswerError(f"MLflow at {self.url} did not answer {method} {path}: {error}") from error
        if answer.get("error_code") == NOT_FOUND:
            raise NotFoundError(f"MLflow at {self.url}: {answer.get('message', path)}")
        if response.is_error:
            raise ServiceAnswerError(f"MLflow at {self.url} refused {method} {path}: {answer.get('message', answer)}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class NotFoundError(ServiceAnswerError):
    """Raised when a model, version or run does not exist in MLflow."""


def version_of(fields: Mapping[str, Any]) -> ModelVersion:
    """A version from its REST fields; MLflow sends numbers as strings."""
    return ModelVersion(
        name=fields["name"],
        version=int(fields["version"]),
        aliases=tuple(sorted(fields.get("aliases", []))),
        tags={tag["key"]: tag["value"] for tag in fields.get("tags", [])},
        run_id=fields.get("run_id", ""),
        source=fields.get("source", ""),
    )


def publish(scratch: Path, folder: Path) -> None:
    """Give a complete folder its name. Where another process was first, its copy stays."""
    scratch.chmod(0o755)
    try:
        scratch.rename(folder)
    except OSError:
        if not folder.exists():
            raise
