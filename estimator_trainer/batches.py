"""Batch arithmetic: how many examples a step takes, and of what they are made up. No TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Batch:
    """The batches of a training or of an evaluation.

    Attributes:
        tasks: number of tasks that train.
        replicas: number of replicas in each of them.
        synchronous: whether all tasks make a step together; else each makes steps of its own.
        replica_batch: number of examples in a batch of one replica.
    """

    tasks: int
    replicas: int
    synchronous: bool
    replica_batch: int

    @property
    def global_batch(self) -> int:
        """Number of examples that one step takes, over all synchronous replicas."""
        return self.replica_batch * self.replicas * (self.tasks if self.synchronous else 1)

    def as_dict(self) -> dict[str, Any]:
        """Returns all numbers, as the plan has them."""
        return dataclasses.asdict(self) | {'global_batch': self.global_batch}

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> 'Batch':
        """Returns what `as_dict` was called on."""
        return cls(**{field.name: numbers[field.name] for field in dataclasses.fields(cls)})

    def __str__(self):
        replicas = f'{self.replicas} replicas x {self.replica_batch:,}' if self.replicas > 1 else ''
        if self.tasks > 1 and self.synchronous:
            return f'global batch {self.global_batch:,}: {self.tasks} workers x {replicas or f"{self.replica_batch:,}"}'
        line = f'{self.global_batch:,} examples a step'
        if self.tasks > 1:
            line += f' of each of {self.tasks} asynchronous workers'
        return f'{line}: {replicas}' if replicas else line
