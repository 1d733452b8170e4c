"""The validated cluster and this process's task in it: the only source for who does what. No TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_trainer.errors import UserError

JOBS = ('chief', 'worker', 'ps', 'evaluator')


class Task(NamedTuple):
    """One process of the cluster, written `worker:1`."""

    job: str
    index: int

    def __str__(self):
        return f'{self.job}:{self.index}'


LOCAL, CHIEF, EVALUATOR = Task('local', 0), Task('chief', 0), Task('evaluator', 0)


@dataclasses.dataclass(frozen=True)
class Topology:
    """A cluster for parameter-server training, or (without arguments) one local process.

    Attributes:
        cluster: job name -> addresses ("host:port") of its tasks.
        task: this process.
        run_id: names this run of the job where the launcher gave all tasks the same; else ''.

    Raises:
        UserError: the tasks do not make a cluster that can train.
    """

    cluster: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    task: Task = LOCAL
    run_id: str = ''

    def __post_init__(self):
        if self.is_local:
            return
        counts = {job: len(self.cluster.get(job, ())) for job in JOBS}
        found = ', '.join(f'{job}:{count}' for job, count in counts.items() if count)
        if counts['chief'] != 1:
            raise UserError(f'the cluster needs exactly one chief; found {found}')
        if not counts['ps']:
            raise UserError(f'the cluster needs at least one ps (parameter server); found {found}')
        if counts['evaluator'] > 1:
            raise UserError(f'the cluster can have one evaluator; found {found}')
        addresses = [address for job in self.cluster.values() for address in job]
        twice = sorted({address for address in addresses if addresses.count(address) > 1})
        if twice:
            raise UserError(f'two tasks of the cluster have the same address {twice[0]}')

    @property
    def is_local(self) -> bool:
        """Whether this process has no peers."""
        return self.task == LOCAL

    @property
    def is_chief(self) -> bool:
        """Whether this process initialises variables and writes checkpoints and the summary."""
        return self.task.job in ('chief', 'local')

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task of the cluster."""
        return tuple(Task(job, index) for job in JOBS for index in range(len(self.cluster.get(job, ()))))

    @property
    def training_tasks(self) -> tuple[Task, ...]:
        """The tasks that read training input, in the order of their input shards."""
        return tuple(task for task in self.tasks if task.job in ('chief', 'worker')) or (LOCAL,)

    @property
    def input_shard(self) -> tuple[int, int]:
        """(number of training input pipelines, which of them is this task's)."""
        tasks = self.training_tasks
        return len(tasks), tasks.index(self.task) if self.task in tasks else 0

    @property
    def has_evaluator(self) -> bool:
        """Whether an evaluator task evaluates, so that the chief need not."""
        return bool(self.cluster.get('evaluator'))

    @property
    def needs(self) -> tuple[Task, ...]:
        """The peers without which this task can neither start nor go on."""
        if self.task.job == 'chief':
            return tuple(task for task in self.tasks if task.job == 'ps')
        if self.task.job == 'worker':
            return tuple(task for task in self.tasks if task.job in ('chief', 'ps'))
        return () if self.is_local else (CHIEF,)

    @property
    def connects_to(self) -> tuple[Task, ...]:
        """Those of `needs` whose server must answer before this task can train."""
        return self.needs if self.task.job in ('chief', 'worker') else ()

    def address(self, task: Task) -> str:
        """Returns the "host:port" of a task."""
        return self.cluster[task.job][task.index]

    def tf_config(self, task: Task | None = None) -> dict[str, Any] | None:
        """Returns what `task` (default: this one) and Estimator's RunConfig in it get to see as TF_CONFIG."""
        if self.is_local:
            return None
        task = task or self.task
        cluster = {job: list(addresses) for job, addresses in self.cluster.items() if job != 'evaluator'}
        return {'cluster': cluster, 'task': {'type': task.job, 'index': task.index}}
