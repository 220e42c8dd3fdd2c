"""Every error the package raises on purpose. Bad data is not among them: it is a value, counted in the pool."""


class FlywheelError(Exception):
    """Base of all errors below. Its message says what, where and what to do; the command line prints it and exits 1."""


class ConfigurationError(FlywheelError):
    """Raised when settings, a profile or an agent's configuration cannot be used. Fix the named setting."""


class UnknownAgentError(ConfigurationError):
    """Raised when the registry has no agent of an id. The message says where to look."""


class AgentExistsError(ConfigurationError):
    """Raised when an agent is to be added under an id that another one has. Change that one, or choose another id."""


class ProfileError(ConfigurationError):
    """Raised when an agent's profile cannot be as it is asked for. The message names the field."""


class NoSuchEventError(FlywheelError):
    """Raised when a measured change of an agent is named that there is not, or that proposes nothing."""


class StaleRevisionError(FlywheelError):
    """Raised when a profile was changed since it was read. Read it again and decide anew."""


class ServiceError(FlywheelError):
    """Raised when a service of ours does not start, or stops. The message names its log file."""


class PortInUseError(ServiceError):
    """Raised before anything is started when a port is taken. Stop the other program or choose another port."""


class DatabaseError(ServiceError):
    """Raised when PostgreSQL cannot be reached or has no room. Nothing was half written; mend it and run again."""


class TaskSourceError(FlywheelError):
    """Raised when the tasks of a source cannot be read, for example because its data wheel is not installed."""


class UnknownSourceTaskError(FlywheelError):
    """Raised when a task is named that no configured source has. ``flywheel tasks list`` lists those there are."""


class SandboxError(FlywheelError):
    """Raised when no command can be started or confined here. Nothing was run; the message says what is missing."""


class AgentError(FlywheelError):
    """Raised by an agent that could not answer at all. The arbiter logs it as a failed execution with this reason."""


class SegmentError(FlywheelError):
    """Raised when a segment file cannot be opened or is not one of ours. Torn tails are counted instead."""


class NotASegmentError(SegmentError):
    """Raised when a file does not start as a segment. Nothing in it can be read; the pool counts it as damaged."""


class PoolError(FlywheelError):
    """Raised when the pool cannot be read or written. A failed read is never taken for an empty pool."""


class SpentBatchError(PoolError):
    """Raised when a batch is to be read that gave its points back. They may be in another one: make a new batch."""


class UnmadeBatchError(PoolError):
    """Raised when a batch cannot be made now: the pool lacks what its criteria ask for. The message says it in numbers.

    ``lacking`` has a sentence for each thing.
    """

    lacking: tuple[str, ...] = ()


class BatchExistsError(PoolError):
    """Raised when another batch has the id of one that is to be made. Choose another id."""


class TrainingError(FlywheelError):
    """Raised when a training job cannot start or ends without a model. The message names its log."""


class AlreadyRunningError(ServiceError):
    """Raised when another process runs the services of this home. Use those, or stop that process first."""


class NotRunningError(ServiceError):
    """Raised by commands that need running services where there are none. Start them with ``flywheel up``."""


class ServiceAnswerError(ServiceError):
    """Raised when a running service refuses a request or answers what it should not. The message quotes it."""


class HeldOutTaskError(FlywheelError):
    """Raised before a task that is not for training is routed. Held-out and validation tasks only measure models."""


class AccessError(FlywheelError):
    """Raised when a grant does not cover what was asked, or cannot be made. The message names grant and limit."""


class QueryError(PoolError):
    """Raised when a query of the pool cannot be answered as it is asked. The message says what to ask instead."""


class NotInPoolError(PoolError):
    """Raised when the pool does not have what a query names, such as a batch. The message says where to look."""


class InputError(FlywheelError):
    """Raised when a file that a command was given cannot be used. It names the file, the line and the reason."""


class RetryLaterError(ServiceError):
    """Raised when what was sent cannot be taken now. Send the same again after ``wait_s`` seconds."""

    wait_s: float = 1.0


class BusyPoolError(RetryLaterError):
    """Raised while a service makes another export. Send the same again after ``wait_s`` seconds."""

    wait_s = 5.0


class NoAgentError(FlywheelError):
    """Raised when the hard limits leave no agent for a task. It says of each agent why it must not have it."""


class UnsupportedOptionError(NoAgentError):
    """Raised when agents may have a task, and none can honour an option of it. The message names the option."""


class UnsupportedPolicyError(FlywheelError):
    """Raised when a log says too little about a policy's choices to evaluate it. It says how much, and what to do."""


class AuditTrailError(FlywheelError):
    """Raised when something cannot be signed, appended to the audit trail or read from it. The message says what."""


class SigningKeyError(AuditTrailError):
    """Raised when a process has no key, or another one than the audit trail is signed with. The message says which."""
