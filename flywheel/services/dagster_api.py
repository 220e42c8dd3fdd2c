"""Dagster's GraphQL API, as far as the platform asks it. Written against 1.13; no part of Dagster is imported.

Times are aware datetimes in UTC, metadata plain values by label.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal, Self

import httpx
from msgspec import Struct

from flywheel.errors import ServiceAnswerError

RunStatus = Literal[
    "QUEUED",
    "NOT_STARTED",
    "MANAGED",
    "STARTING",
    "STARTED",
    "SUSPENDED",
    "SUCCESS",
    "FAILURE",
    "CANCELING",
    "CANCELED",
]
ACTIVE: frozenset[RunStatus] = frozenset(
    ("QUEUED", "NOT_STARTED", "MANAGED", "STARTING", "STARTED", "SUSPENDED", "CANCELING")
)
PARTITION_TAG = "dagster/partition"
LOCATION = "flywheel"
REPOSITORY = "__repository__"

RUN_FIELDS = """
  runId jobName status creationTime startTime endTime tags { key value }
  stepStats { stepKey status startTime endTime }
"""
METADATA_FIELDS = """
  __typename label
  ... on TextMetadataEntry { text } ... on PathMetadataEntry { path } ... on UrlMetadataEntry { url }
  ... on MarkdownMetadataEntry { mdStr } ... on JsonMetadataEntry { jsonString }
  ... on IntMetadataEntry { intRepr } ... on FloatMetadataEntry { floatValue } ... on BoolMetadataEntry { boolValue }
"""
ERROR_FIELDS = "__typename ... on Error { message }"


class Step(Struct, frozen=True, kw_only=True):
    """One step of a run; without times before it starts and ends."""

    key: str
    status: str
    started_at: datetime | None
    ended_at: datetime | None


class Run(Struct, frozen=True, kw_only=True):
    """One run of a job."""

    id: str
    job: str
    status: RunStatus
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    tags: dict[str, str]
    steps: tuple[Step, ...]

    @property
    def is_active(self) -> bool:
        """Whether it may still change."""
        return self.status in ACTIVE

    @property
    def partition(self) -> str | None:
        """The partition key it ran for."""
        return self.tags.get(PARTITION_TAG)


class Materialization(Struct, frozen=True, kw_only=True):
    """One materialization of an asset, with its metadata as plain values."""

    run_id: str
    partition: str | None
    at: datetime
    metadata: dict[str, Any]


class Tick(Struct, frozen=True, kw_only=True):
    """One evaluation of a sensor."""

    status: Literal["STARTED", "SKIPPED", "SUCCESS", "FAILURE"]
    at: datetime
    skip_reason: str | None
    error: str | None
    run_ids: tuple[str, ...]


class Sensor(Struct, frozen=True, kw_only=True):
    """A sensor with its latest tick."""

    name: str
    is_running: bool
    last_tick: Tick | None


class DagsterApi:
    """A client of one web server. Close it, or use it as a context manager.

    Args:
        url: the web server's address.
        timeout_s: longest wait for one answer.
    """

    def __init__(self, url: str, *, timeout_s: float = 30.0) -> None:
        self.url = url
        self._client = httpx.Client(base_url=url, timeout=timeout_s, trust_env=False)

    def query(self, text: str, **variables: Any) -> dict[str, Any]:
        """One GraphQL request.

        Raises:
            ServiceAnswerError: the server does not answer, or answers with errors.
        """
        try:
            response = self._client.post("/graphql", json={"query": text, "variables": variables})
            response.raise_for_status()
            answer: dict[str, Any] = response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServiceAnswerError(f"Dagster at {self.url} did not answer a query: {error}") from error
        if answer.get("errors"):
            messages = "; ".join(str(error.get("message")) for error in answer["errors"])
            raise ServiceAnswerError(f"Dagster at {self.url} refused a query: {messages}")
        data: dict[str, Any] = answer["data"]
        return data

    def check_location(self) -> None:
        """Make sure that the web server could load the definitions.

        Raises:
            ServiceAnswerError: it could not; the message is Python's error.
        """
        error = self.location_error()
        if error:
            raise ServiceAnswerError(f"Dagster cannot load the definitions of {LOCATION}: {error}")

    def location_error(self) -> str:
        """Why the web server has no definitions; empty where it has them."""
        found = self.query(
            "{ workspaceOrError { __typename ... on Workspace { locationEntries { locationOrLoadError {"
            " __typename ... on PythonError { message causes { message } } } } } ... on PythonError { message } } }"
        )["workspaceOrError"]
        for entry in expect(found, "Workspace", "load the workspace")["locationEntries"]:
            loaded = entry["locationOrLoadError"] or {}
            if loaded.get("__typename") == "PythonError":
                messages = [loaded["message"], *(cause["message"] for cause in loaded["causes"])]
                return " Because: ".join(message.strip() for message in messages)
        return ""

    def reload_location(self) -> None:
        """Let the code server load the definitions again, as the button *Reload* does.

        Raises:
            ServiceAnswerError: it cannot. Definitions that do not load are no such error: ``check_location`` says them.
        """
        found = self.query(
            f"mutation($name: String!) {{ reloadRepositoryLocation(repositoryLocationName: $name) {{"
            f" {ERROR_FIELDS} }} }}",
            name=LOCATION,
        )["reloadRepositoryLocation"]
        expect(found, "WorkspaceLocationEntry", f"reload {LOCATION}")

    def daemon_is_alive(self, *, since: datetime) -> bool:
        """Whether every daemon that this instance needs has sent a heartbeat since then."""
        statuses = self.query(
            "{ instance { daemonHealth { allDaemonStatuses { daemonType required healthy lastHeartbeatTime } } } }"
        )["instance"]["daemonHealth"]["allDaemonStatuses"]
        return all(
            status["healthy"] and (status["lastHeartbeatTime"] or 0) >= since.timestamp()
            for status in statuses
            if status["required"]
        )

    def runs(
        self,
        *,
        job: str | None = None,
        partition: str | None = None,
        tags: Mapping[str, str] | None = None,
        statuses: Sequence[RunStatus] = (),
        created_after: datetime | None = None,
        limit: int = 50,
    ) -> list[Run]:
        """Runs that match all criteria, newest first."""
        wanted = {**(tags or {}), **({PARTITION_TAG: partition} if partition else {})}
        criteria: dict[str, Any] = {"tags": [{"key": key, "value": value} for key, value in wanted.items()]}
        if job:
            criteria["pipelineName"] = job
        if statuses:
            criteria["statuses"] = list(statuses)
        if created_after:
            criteria["createdAfter"] = created_after.timestamp()
        found = self.query(
            f"query($filter: RunsFilter, $limit: Int) {{ runsOrError(filter: $filter, limit: $limit) {{"
            f" {ERROR_FIELDS} ... on Runs {{ results {{ {RUN_FIELDS} }} }} }} }}",
            filter=criteria,
            limit=limit,
        )["runsOrError"]
        return [run_of(result) for result in expect(found, "Runs", "list runs")["results"]]

    def latest_materialization(self, asset: str, *, partition: str | None = None) -> Materialization | None:
        """The newest materialization of an asset, or of one partition of it; ``None`` where there is none."""
        found = self.query(
            f"query($key: AssetKeyInput!, $partitions: [String!]) {{ assetOrError(assetKey: $key) {{ __typename"
            f" ... on Asset {{ assetMaterializations(partitions: $partitions, limit: 1) {{"
            f" runId partition timestamp metadataEntries {{ {METADATA_FIELDS} }} }} }} }} }}",
            key={"path": [asset]},
            partitions=[partition] if partition else None,
        )["assetOrError"]
        events = found.get("assetMaterializations") or []
        return materialization_of(events[0]) if events else None

    def sensor(self, name: str) -> Sensor:
        """A sensor and its latest finished tick.

        Raises:
            ServiceAnswerError: there is no such sensor.
        """
        found = self.query(
            f"query($selector: SensorSelector!) {{ sensorOrError(sensorSelector: $selector) {{ {ERROR_FIELDS}"
            f" ... on Sensor {{ name sensorState {{ status ticks(limit: 1, statuses: [SKIPPED, SUCCESS, FAILURE]) {{"
            f" status timestamp skipReason runIds error {{ message }} }} }} }} }} }}",
            selector=selector(sensorName=name),
        )["sensorOrError"]
        state = expect(found, "Sensor", f"find sensor {name}")["sensorState"]
        ticks = state["ticks"]
        return Sensor(
            name=name, is_running=state["status"] == "RUNNING", last_tick=tick_of(ticks[0]) if ticks else None
        )

    def start_sensor(self, name: str) -> None:
        """Turn a sensor on; does nothing where it is on."""
        if self.sensor(name).is_running:
            return
        found = self.query(
            f"mutation($selector: SensorSelector!) {{ startSensor(sensorSelector: $selector) {{ {ERROR_FIELDS} }} }}",
            selector=selector(sensorName=name),
        )["startSensor"]
        expect(found, "Sensor", f"start sensor {name}")

    def launch(self, job: str, *, partition: str | None = None, tags: Mapping[str, str] | None = None) -> str:
        """Start a run of a job, for one partition where it has them, and return its id."""
        metadata = {**(tags or {}), **({PARTITION_TAG: partition} if partition else {})}
        found = self.query(
            f"mutation($params: ExecutionParams!) {{ launchRun(executionParams: $params) {{ {ERROR_FIELDS}"
            f" ... on LaunchRunSuccess {{ run {{ runId }} }} }} }}",
            params={
                "selector": selector(jobName=job),
                "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in metadata.items()]},
            },
        )["launchRun"]
        return str(expect(found, "LaunchRunSuccess", f"start job {job}")["run"]["runId"])

    def backfill(self, assets: Sequence[str], partitions: Sequence[str]) -> str:
        """Start a backfill of assets over partitions and return its id."""
        found = self.query(
            f"mutation($params: LaunchBackfillParams!) {{ launchPartitionBackfill(backfillParams: $params) {{"
            f" {ERROR_FIELDS} ... on LaunchBackfillSuccess {{ backfillId }} }} }}",
            params={
                "assetSelection": [{"path": [asset]} for asset in assets],
                "partitionNames": list(partitions),
            },
        )["launchPartitionBackfill"]
        return str(expect(found, "LaunchBackfillSuccess", "start a backfill")["backfillId"])

    def backfill_status(self, backfill_id: str) -> str:
        """REQUESTED, COMPLETED_SUCCESS, COMPLETED_FAILED, CANCELED, ... as Dagster names it."""
        found = self.query(
            f"query($id: String!) {{ partitionBackfillOrError(backfillId: $id) {{ {ERROR_FIELDS}"
            f" ... on PartitionBackfill {{ status }} }} }}",
            id=backfill_id,
        )["partitionBackfillOrError"]
        return str(expect(found, "PartitionBackfill", f"find backfill {backfill_id}")["status"])

    def terminate(self, run_ids: Sequence[str], *, process_is_gone: bool = False) -> None:
        """Stop runs. ``process_is_gone`` marks them as canceled without asking a process that no longer lives."""
        found = self.query(
            f"mutation($ids: [String!]!, $policy: TerminateRunPolicy) {{"
            f" terminateRuns(runIds: $ids, terminatePolicy: $policy) {{ {ERROR_FIELDS}"
            f" ... on TerminateRunsResult {{ terminateRunResults {{ __typename"
            f" ... on TerminateRunFailure {{ message }} ... on Error {{ message }} }} }} }} }}",
            ids=list(run_ids),
            policy="MARK_AS_CANCELED_IMMEDIATELY" if process_is_gone else "SAFE_TERMINATE",
        )["terminateRuns"]
        for result in expect(found, "TerminateRunsResult", "stop runs")["terminateRunResults"]:
            expect(result, "TerminateRunSuccess", "stop a run")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def expect(answer: Mapping[str, Any], typename: str, action: str) -> Mapping[str, Any]:
    """The answer where it is of the type hoped for.

    Raises:
        ServiceAnswerError: it is another; the message says what Dagster says.
    """
    if answer["__typename"] != typename:
        raise ServiceAnswerError(f"Dagster could not {action}: {answer.get('message') or answer['__typename']}")
    return answer


def selector(**names: str) -> dict[str, str]:
    """What Dagster needs to find something of ours: its name and our code location."""
    return {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY, **names}


def time_of(seconds: float | None) -> datetime | None:
    """A time of Dagster's (seconds since 1970)."""
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def run_of(answer: Mapping[str, Any]) -> Run:
    """A run from its GraphQL fields."""
    return Run(
        id=answer["runId"],
        job=answer["jobName"],
        status=answer["status"],
        created_at=datetime.fromtimestamp(answer["creationTime"], UTC),
        started_at=time_of(answer["startTime"]),
        ended_at=time_of(answer["endTime"]),
        tags={tag["key"]: tag["value"] for tag in answer["tags"]},
        steps=tuple(
            Step(
                key=step["stepKey"],
                status=step["status"] or "",
                started_at=time_of(step["startTime"]),
                ended_at=time_of(step["endTime"]),
            )
            for step in answer["stepStats"]
        ),
    )


def materialization_of(event: Mapping[str, Any]) -> Materialization:
    """A materialization from its GraphQL fields; Dagster sends its time as milliseconds in a string."""
    return Materialization(
        run_id=event["runId"],
        partition=event["partition"],
        at=datetime.fromtimestamp(float(event["timestamp"]) / 1000, UTC),
        metadata={entry["label"]: metadata_value(entry) for entry in event["metadataEntries"]},
    )


def metadata_value(entry: Mapping[str, Any]) -> Any:
    """The plain value of a metadata entry; ``None`` for kinds that only the user interface shows (tables, lineage)."""
    match entry["__typename"]:
        case "JsonMetadataEntry":
            return json.loads(entry["jsonString"])
        case "IntMetadataEntry":
            return int(entry["intRepr"])
        case "FloatMetadataEntry":
            return entry["floatValue"]
        case "BoolMetadataEntry":
            return entry["boolValue"]
    return next((entry[field] for field in ("text", "path", "url", "mdStr") if field in entry), None)


def tick_of(answer: Mapping[str, Any]) -> Tick:
    """A tick from its GraphQL fields."""
    return Tick(
        status=answer["status"],
        at=datetime.fromtimestamp(answer["timestamp"], UTC),
        skip_reason=answer["skipReason"],
        error=(answer["error"] or {}).get("message"),
        run_ids=tuple(answer["runIds"]),
    )
