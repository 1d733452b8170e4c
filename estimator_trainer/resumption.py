"""Where a task goes on in its training input after an interruption. No TensorFlow.

An interrupted run has trained on batches whose updates the last checkpoint holds. Who starts again after it leaves
those out: each example is trained on at least once, and again only if its update was lost. A run that had ended begins
its input anew, as Estimator does.
"""

import dataclasses
import random
import zlib
from collections.abc import Mapping
from typing import Any

from estimator_trainer.topology import Topology

# What may change without another input: who trains for how long, where, and what is done with it.
_OTHER = (
    *('RunConfig.', 'trainer.', 'experiment.max_steps', 'experiment.hooks', 'experiment.exporters'),
    *('experiment.eval', 'eval/'),
)


@dataclasses.dataclass
class InputPosition:
    """How far a task is in its training input.

    Attributes:
        key: stands for the input: two runs of the same key read the same batches in the same order.
        seed: seeds the input_fn.
        first_step: global_step at which this process began.
        skipped: number of batches that it left out.
        per_step: number of batches that each step takes, where no other task makes steps; else None.
        pairs: (global_step, number of batches), the latest last: at that step the model had had so many of this task's.
    """

    key: str
    seed: int
    first_step: int = 0
    skipped: int = 0
    per_step: int | None = None
    pairs: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    def note(self, step: int, batches: int, saved_step: int) -> None:
        """Adds a pair, and forgets those that a checkpoint of `saved_step` makes useless."""
        if not self.pairs or self.pairs[-1] != (step, batches):
            self.pairs.append((step, batches))
        while len(self.pairs) > 1 and self.pairs[1][0] <= saved_step:
            del self.pairs[0]

    def batches_at(self, step: int) -> int:
        """Returns how many batches a checkpoint of this global_step certainly holds, with those left out before."""
        if step < self.first_step:
            return 0  # the checkpoints of this run were removed
        if self.per_step is not None:
            return self.skipped + (step - self.first_step) * self.per_step
        return self.skipped + max((batches for at, batches in self.pairs if at <= step), default=0)

    @property
    def latest(self) -> int:
        """How many batches have certainly been trained on, with those left out before."""
        return self.skipped + (self.pairs[-1][1] if self.pairs else 0)


def key_of(bindings: Mapping[str, str], topology: Topology) -> str:
    """Returns what stands for the training input of a task."""
    text = repr((topology.input_shard, sorted(item for item in bindings.items() if not item[0].startswith(_OTHER))))
    return f'{zlib.crc32(text.encode()):08x}'


def interrupted(before: Mapping[str, Any], key: str) -> InputPosition | None:
    """Returns where the process with the record `before` was interrupted; None if it had other input, or none."""
    try:
        position = InputPosition(**before['input'])
        position.pairs = [(int(step), int(batches)) for step, batches in position.pairs]
    except (KeyError, TypeError, ValueError):
        return None
    return position if position.key == key else None


def draw_seed() -> int:
    """Returns a seed for an input that has none, so that its order can be repeated after an interruption."""
    return random.SystemRandom().randrange(2**31)
