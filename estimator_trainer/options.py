"""What to do with an experiment. No TensorFlow."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Options:
    """What to do with an experiment.

    Attributes:
        mode: 'train_and_evaluate', 'train', 'evaluate', 'predict' or 'export'.
        output: where predictions or an export are written.
        checkpoint: the checkpoint to evaluate, predict from or export; None is the newest.
        resolved_config: the text of config.gin.
        plan: whether it is only planned.
        bindings: name -> value as text, those that all tasks of a job share.
    """

    mode: str
    output: str | None = None
    checkpoint: str | None = None
    resolved_config: str = ''
    plan: bool = False
    bindings: Mapping[str, str] = dataclasses.field(default_factory=dict)
