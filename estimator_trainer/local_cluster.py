"""`--local_cluster`: runs a whole cluster as processes on this machine. No TensorFlow.

Every task is this program again with its own TF_CONFIG, as a launcher for many machines would start it.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from estimator_trainer import console, ledger
from estimator_trainer.errors import RestartableError, TrainerError, UserError, nearest
from estimator_trainer.forked import ForkedProcess
from estimator_trainer.ledger import Ledger
from estimator_trainer.topology import CHIEF, JOBS, LOCAL_CLUSTER, Task, Topology

_POLL_SECONDS = 0.1
# Once a task has failed or the chief is done, the others have this long to end by themselves (the ledger tells them),
# then as long again after SIGTERM (their own grace period is shorter), and then they are killed.
_END_SECONDS = 30.0
_TAIL_LINES = 20
_MAX_TASKS = 100


def parse(spec: str) -> dict[str, int]:
    """Returns how many tasks of each job `spec` ("chief:1,worker:2,ps:1") asks for.

    Raises:
        UserError: it is not of that form.
    """
    counts: dict[str, int] = {}
    for part in spec.split(','):
        job, colon, count = part.strip().partition(':')
        job = 'chief' if job == 'master' else job
        if job not in JOBS:
            raise UserError(
                f'--local_cluster={spec}: unknown job {job!r}; expected {", ".join(JOBS)}{nearest(job, JOBS)}'
            )
        if job in counts:
            raise UserError(f'--local_cluster={spec}: {job} is given twice')
        if colon and not (count.isascii() and count.isdigit() and int(count) <= _MAX_TASKS):
            raise UserError(
                f'--local_cluster={spec}: {part.strip()!r}: expected job:count with a count of at most {_MAX_TASKS}'
            )
        counts[job] = int(count) if colon else 1
    if not counts.get('chief') and counts.get('worker'):  # as in a TF_CONFIG without a chief
        counts = counts | {'chief': 1, 'worker': counts['worker'] - 1}
    return counts


@dataclasses.dataclass
class _Process:
    task: Task
    popen: subprocess.Popen | ForkedProcess
    log: pathlib.Path
    started: float = dataclasses.field(default_factory=time.monotonic)
    seconds: float = 0.0
    stopped_by_us: str = ''

    def running(self) -> bool:
        if self.popen.poll() is None:
            return True
        self.seconds = self.seconds or time.monotonic() - self.started
        return False

    @property
    def exit_code(self) -> int:
        code = self.popen.returncode
        return 128 - code if code < 0 else code

    def tail(self) -> str:
        lines = self.log.read_text(errors='replace').splitlines()[-_TAIL_LINES:]
        return '\n'.join(f'  {line}' for line in lines)


def launch(
    spec: str,
    argv: Sequence[str],
    model_dir: Any,
    trial: str = '',
    check: Callable[[Topology], Any] = lambda _: None,
    main: Callable[[list[str]], int] | None = None,
) -> int:
    """Runs the cluster until all its tasks have ended, and returns the exit code of the whole.

    Args:
        spec: the tasks, e.g. "chief:1,worker:1,ps:1".
        argv: this program's arguments; the tasks get the same, without --local_cluster and --fork_tasks.
        model_dir: the common directory; RunConfig.model_dir as far as it is known without gin.
        trial: see `Topology.trial`.
        check: raises a UserError if the cluster does not fit what it is for.
        main: runs this program with arguments and returns its exit code, to be called in forks of this process; None
            starts fresh processes.

    Returns:
        0 if every task exited 0; else 2 if a task found a mistake of the caller's, 1 if one failed in a way that a
        restart cannot mend, 130 or 143 after a signal, and otherwise 138.

    Raises:
        UserError: `spec` makes no cluster, or there is no model_dir.
    """
    counts = parse(spec)
    if not model_dir or not isinstance(model_dir, str):  # A reference that only gin can follow is no string.
        raise UserError('--local_cluster: the tasks of a cluster need a common --model_dir (RunConfig.model_dir)')
    with contextlib.ExitStack() as stack:
        cluster = {
            job: tuple(stack.enter_context(_reserved_port()) for _ in range(count))
            for job, count in counts.items()
            if count
        }
        # Checks the cluster; any of its tasks will do.
        topology = Topology(cluster, Task(next(iter(cluster), 'chief'), 0), trial=trial, source=LOCAL_CLUSTER)
        check(topology)
        run = pathlib.Path(os.path.expanduser(model_dir)) / trial / 'run'
        _refuse_second(run)
        logs = _LogDirectory(run / 'logs')
        cluster_processes = _Cluster(topology, _without_own_flags(argv), logs, main)
        return cluster_processes.run()


def _refuse_second(run: pathlib.Path) -> None:
    """Raises a UserError if a chief lives there: the logs of its cluster must not be written over."""
    if record := Ledger(str(run), CHIEF, '', _Files(), ()).occupied(console.say):
        raise UserError(ledger.in_use(str(run.parent), record))


class _Files:
    """The local file system, without TensorFlow."""

    def makedirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def write(self, path: str, text: str) -> None:
        pathlib.Path(path).write_text(text)

    def read(self, path: str) -> str:
        return pathlib.Path(path).read_text()


@contextlib.contextmanager
def _reserved_port() -> Iterator[str]:
    """Yields a loopback address whose port nobody else is given.

    The socket stays bound but does not listen, and the task's server binds the same port beside it (SO_REUSEPORT).
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(('127.0.0.1', 0))
        yield f'127.0.0.1:{holder.getsockname()[1]}'


def _without_own_flags(argv: Sequence[str]) -> list[str]:
    result, skip = [], False
    for argument in argv[1:]:
        if skip:
            skip = False
        elif argument in ('--local_cluster', '-local_cluster'):
            skip = True
        elif not argument.lstrip('-').startswith(('local_cluster=', 'fork_tasks')):
            result.append(argument)
    return result


class _LogDirectory:
    """The tasks' log files; those directories that did not exist before can be taken away again."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._new = [parent for parent in (path, *path.parents) if not parent.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f'--model_dir: cannot make {path}: {error.strerror}') from None

    def remove(self, logs: Iterable[pathlib.Path]) -> None:
        """Removes the log files, the tasks' records of a first run, and those directories made here that are empty."""
        for log in logs:
            log.unlink(missing_ok=True)
        if self.path.parent in self._new:
            for record in self.path.parent.glob('*.json'):
                record.unlink()
        for directory in self._new:
            with contextlib.suppress(OSError):  # somebody has written there
                directory.rmdir()


class _Cluster:
    def __init__(
        self,
        topology: Topology,
        arguments: Sequence[str],
        logs: _LogDirectory,
        main: Callable[[list[str]], int] | None,
    ):
        self._main = main
        self._topology = topology
        self._needed = dataclasses.replace(topology, task=CHIEF).needs
        self._arguments = arguments
        self._logs = logs
        self._run_id = uuid.uuid4().hex
        self._processes: list[_Process] = []
        self._signal = 0
        self._shown = 0

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._forward)
        console.out(f'local cluster: {", ".join(map(str, self._topology.tasks))}; logs in {self._logs.path}')
        try:
            for task in self._topology.tasks:
                self._processes.append(self._start(task))
            self._wait()
        except OSError as error:
            raise UserError(f'--local_cluster: {error.filename}: {error.strerror}') from None
        finally:
            for process in self._processes:
                if process.running():
                    process.popen.kill()
                    process.popen.wait(timeout=10)
        self._follow_chief()
        return self._outcome()

    def _start(self, task: Task) -> _Process:
        config = {
            'cluster': self._topology.cluster,
            'task': {'type': task.job, 'index': task.index, 'trial': self._topology.trial},
            'run_id': self._run_id,
            'environment': LOCAL_CLUSTER,
        }
        log = self._logs.path / f'{task.job}-{task.index}.log'
        environ = {'TF_CONFIG': json.dumps(config), 'TF_GRPC_REUSE_PORT': 'true'}
        with log.open('wb') as output:
            if self._main is not None:
                arguments = ['estimator_trainer', *self._arguments]
                forked = ForkedProcess(lambda: self._main(arguments), environ, output, _die_with_parent)
                return _Process(task, forked, log)
            popen = subprocess.Popen(
                [sys.executable, '-m', 'estimator_trainer', *self._arguments],
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the tasks once, through `_forward`.
                preexec_fn=_die_with_parent,
            )
        return _Process(task, popen, log)

    def _forward(self, number: int, _: object) -> None:
        for process in self._processes:
            if process.popen.poll() is None:
                process.popen.send_signal(signal.SIGKILL if self._signal else number)
                process.popen.send_signal(signal.SIGCONT)
        self._signal = self._signal or number

    def _wait(self) -> None:
        """Waits for all tasks; those that outlive the end of the job by too long are killed."""
        deadlines = {signal.SIGTERM: _END_SECONDS, signal.SIGKILL: 2 * _END_SECONDS}
        over = None
        while any([process.running() for process in self._processes]):
            self._follow_chief()
            ended = [process for process in self._processes if not process.running()]
            if over is None and (self._signal or any(map(self._ends_the_job, ended))):
                over = time.monotonic()
            for number, seconds in list(deadlines.items()):
                if over is not None and time.monotonic() > over + seconds:
                    del deadlines[number]
                    self._stop_stragglers(number)
            time.sleep(_POLL_SECONDS)

    def _ends_the_job(self, process: _Process) -> bool:
        """Whether the other tasks have nothing more to do once this one has ended."""
        needed = process.task == CHIEF or (process.task in self._needed and process.exit_code)
        return bool(needed or process.exit_code in (TrainerError.exit_code, UserError.exit_code))

    def _stop_stragglers(self, number: signal.Signals) -> None:
        for process in self._processes:
            if process.running():
                process.stopped_by_us = f' ({number.name})'
                process.popen.send_signal(number)
                process.popen.send_signal(signal.SIGCONT)  # A stopped process would not act on it.

    def _row(self, process: _Process) -> dict[str, Any]:
        """Returns what is known of a task: what it has written itself, its time and its exit code."""
        record = {}
        path = self._logs.path.parent / f'{process.task.job}-{process.task.index}.json'
        with contextlib.suppress(OSError, ValueError):  # it has not come so far
            record = json.loads(path.read_text())
        if record.get('run_id') != self._run_id:
            record = {}
        exit_code = f'{process.exit_code}{process.stopped_by_us}'
        return ledger.row(process.task, record) | {'seconds': round(process.seconds, 1), 'exit': exit_code}

    def _follow_chief(self) -> None:
        """Shows what the chief has written since the last call: the cluster's progress is the chief's."""
        with self._processes[0].log.open('rb') as log:
            log.seek(self._shown)
            text = log.read()
        end = text.rfind(b'\n') + 1
        self._shown += end
        if end:
            console.out(text[:end].decode(errors='replace').rstrip('\n'))

    def _outcome(self) -> int:
        codes = [process.exit_code for process in self._processes]
        if UserError.exit_code in codes:
            # The same mistake in every task: told once, and nothing stays behind.
            process = self._processes[codes.index(UserError.exit_code)]
            if process.task.job != 'chief':
                console.err(process.tail().replace('  estimator_trainer: ', 'estimator_trainer: '))
            self._logs.remove(process.log for process in self._processes)
            return UserError.exit_code
        console.tasks(self._row(process) for process in self._processes)
        if not any(codes):
            return 0
        if self._signal:
            return 128 + self._signal
        for process in self._processes[1:]:  # The chief's lines stand above.
            console.err(f'--- {process.task}, exit {process.exit_code}, last lines of {process.log}')
            console.err(process.tail())
        if TrainerError.exit_code in codes:
            return TrainerError.exit_code
        # A task that died of a signal does not say so itself, but it is lost to the others: a restart may mend that.
        own = (
            process.exit_code
            for process in self._processes
            if process.popen.returncode > 0 and not process.stopped_by_us
        )
        return next(own, RestartableError.exit_code)


def _die_with_parent() -> None:
    """Has the kernel end this process when its parent ends, even by kill -9 (Linux; elsewhere nothing happens)."""
    with contextlib.suppress(OSError, AttributeError):
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
