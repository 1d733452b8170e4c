"""`<model_dir>/run/summary.json`: what this run did, for programs to read."""

import dataclasses
import json
import math
import platform
from importlib import metadata
from typing import Any

import estimator_trainer
from estimator_trainer import files

RUNNING, DONE, FAILED, INTERRUPTED = 'running', 'done', 'failed', 'interrupted'


def _versions() -> dict[str, str]:
    from estimator_trainer.compat import tf

    return {
        'estimator_trainer': estimator_trainer.__version__,
        'python': platform.python_version(),
        'tensorflow': tf.version.VERSION,
        **{name: metadata.version(name) for name in ('tensorflow-estimator', 'gin-config', 'numpy')},
    }


@dataclasses.dataclass
class Summary:
    """The outcome of a run.

    Attributes:
        status: 'running', 'done', 'failed' or 'interrupted'. 'running' in a file whose process is gone: it was killed.
        stopped_because: why training ended: 'max_steps', 'end_of_input', 'early_stopping', 'signal', 'error' or
            'nothing_to_do' (max_steps was reached before); None while running and where nothing was to be trained.
        first_step, final_step: global_step before the first and after the last step.
        overshoot: number of steps beyond max_steps that asynchronous workers have made.
        examples: consumed by training, over all tasks; None where batches have no batch dimension.
        seconds: training time, without start-up.
        restored_from: the checkpoint from which training went on, None where it began anew.
        checkpoint: the newest checkpoint at the end.
        evaluations: dicts with name, step, metrics (name -> number) and examples.
        evaluations_skipped: number of checkpoints that `trainer.throttle_secs` has kept from evaluation.
        exports: dicts with name, step and path.
        tasks: for each task of the cluster a dict with task, host, status, steps (of its own), examples, seconds
            (since its start) and exit (code), as far as it is known.
        bad_records: number of bad records of the inputs that this process has left out.
        warnings: what the run has warned of.
        error: the message of the error that ended the run, if one did.
        versions: package -> version.
    """

    mode: str
    status: str = RUNNING
    stopped_because: str | None = None
    first_step: int | None = None
    final_step: int | None = None
    overshoot: int = 0
    examples: int | None = 0
    seconds: float = 0.0
    restored_from: str | None = None
    checkpoint: str | None = None
    evaluations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    evaluations_skipped: int = 0
    exports: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    tasks: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    bad_records: int = 0
    warnings: list[str] = dataclasses.field(default_factory=list)
    error: str | None = None
    versions: dict[str, str] = dataclasses.field(default_factory=_versions)

    @property
    def steps(self) -> int:
        """Number of training steps of this run."""
        return (self.final_step or 0) - (self.first_step or 0)

    @property
    def steps_per_second(self) -> float | None:
        """None where nothing was trained."""
        return self.steps / self.seconds if self.steps and self.seconds else None

    def write(self, path: str) -> None:
        """Writes the summary atomically, as JSON (a metric that is not finite becomes null)."""
        fields = dataclasses.asdict(self) | {'steps_per_second': self.steps_per_second}
        files.replace(path, json.dumps(finite(fields), indent=2, allow_nan=False, default=str) + '\n')


def finite(value: Any) -> Any:
    """Returns a value for JSON: numbers in it that are not finite become None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
