"""The validated cluster and this process's task in it: the only source for who does what. No TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_trainer.errors import UserError

LOCAL_CLUSTER = '--local_cluster'  # a source, and what its launcher calls the environment of the tasks
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
    """A cluster, or (without arguments) one local process.

    Attributes:
        cluster: job name -> addresses ("host:port") of its tasks; '' is the address of a task that the launcher does
            not tell this one.
        task: this process.
        run_id: names this run of the job where the launcher gave all tasks the same; else ''.
        trial: names this trial of a hyperparameter search, which gets a directory of its own in model_dir; else ''.
        source: what describes the cluster, such as 'TF_CONFIG'; '' for a local process.
        launched_as: this process's task as the launcher calls it, where that is not `task`.

    Raises:
        UserError: the tasks do not make a cluster that can train.
    """

    cluster: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    task: Task = LOCAL
    run_id: str = ''
    trial: str = ''
    source: str = ''
    launched_as: Task | None = None

    def __post_init__(self):
        if self.is_local:
            return
        counts = {job: len(self.cluster.get(job, ())) for job in JOBS}
        if counts['chief'] != 1 or not self.cluster['chief'][0]:
            raise UserError(f'{self.origin} needs exactly one chief; found {self.counts}')
        if counts['evaluator'] > 1:
            raise UserError(f'{self.origin} can have one evaluator; found {self.counts}')
        addresses = [address for job in self.cluster.values() for address in job if address]
        twice = sorted({address for address in addresses if addresses.count(address) > 1})
        if twice:
            raise UserError(f'{self.origin} gives two tasks the same address {twice[0]}')

    @property
    def origin(self) -> str:
        """What is said of the cluster in an error."""
        return f'{self.source}: the cluster' if self.source else 'the cluster'

    @property
    def counts(self) -> str:
        """The number of tasks of each job, as `--local_cluster` takes it."""
        counts = {job: len(self.cluster.get(job, ())) for job in JOBS}
        return ', '.join(f'{job}:{count}' for job, count in counts.items() if count) or 'no task'

    @property
    def is_local(self) -> bool:
        """Whether this process has no peers."""
        return self.task == LOCAL

    @property
    def is_distributed(self) -> bool:
        """Whether training takes more than one process."""
        return len(self.training_tasks) > 1 or self.has_ps

    @property
    def is_collective(self) -> bool:
        """Whether the training tasks hold copies of the variables and make each step together."""
        return self.is_distributed and not self.has_ps

    @property
    def has_ps(self) -> bool:
        """Whether parameter servers hold the variables."""
        return bool(self.cluster.get('ps'))

    @property
    def is_chief(self) -> bool:
        """Whether this process initialises variables and writes checkpoints and the summary."""
        return self.task.job in ('chief', 'local')

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task of the cluster."""
        return tuple(
            Task(job, index) for job in JOBS for index, address in enumerate(self.cluster.get(job, ())) if address
        )

    @property
    def training_tasks(self) -> tuple[Task, ...]:
        """The tasks that read training input, in the order of their input shards."""
        tasks = (Task(job, index) for job in ('chief', 'worker') for index in range(len(self.cluster.get(job, ()))))
        return tuple(tasks) or (LOCAL,)

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
        if self.task.job in ('chief', 'worker'):
            jobs = ('chief', 'worker') if self.is_collective else ('chief', 'ps')
            return tuple(task for task in self.tasks if task.job in jobs and task != self.task)
        return () if self.is_local else (CHIEF,)

    @property
    def connects_to(self) -> tuple[Task, ...]:
        """Those of `needs` whose server must answer before this task can train."""
        trains = self.task in self.training_tasks
        return tuple(task for task in self.needs if trains and (self.is_collective or task.job == 'ps'))

    def address(self, task: Task) -> str:
        """Returns the "host:port" of a task."""
        return self.cluster[task.job][task.index]

    def tf_config(self, task: Task | None = None) -> dict[str, Any] | None:
        """Returns what `task` (default: this one) and Estimator's RunConfig in it get to see as TF_CONFIG."""
        task = task or self.task
        if not self.is_distributed and task.job != 'evaluator':
            return None  # a chief that trains alone needs no server
        cluster = {job: _list_or_map(addresses) for job, addresses in self.cluster.items() if job != 'evaluator'}
        return {'cluster': cluster, 'task': {'type': task.job, 'index': task.index}}


def _list_or_map(addresses: tuple[str, ...]) -> list[str] | dict[str, str]:
    if all(addresses):
        return list(addresses)
    return {str(index): address for index, address in enumerate(addresses) if address}
