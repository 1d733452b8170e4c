"""For tests of jobs: whole clusters of real processes on this machine. No TensorFlow, no test framework.

with LocalCluster('chief:1,worker:2,ps:1', '--gin_file=my.gin', model_dir='M') as cluster:
    result = cluster.finish().check()
assert set(result.exit_codes.values()) == {0}
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from estimator_trainer.ledger import ENDED

_TAIL_LINES = 40


@dataclasses.dataclass(frozen=True)
class Result:
    """What a cluster left.

    Attributes:
        code: the launcher's exit code.
        out, err: what the launcher printed.
        tasks: task ('worker:1') -> column of the table at the end ('status', 'steps', 'examples', 'exit' ...) -> text.
        logs: task -> all that it printed.
    """

    code: int
    out: str
    err: str
    tasks: Mapping[str, Mapping[str, str]]
    logs: Mapping[str, str]

    @property
    def exit_codes(self) -> dict[str, int]:
        """Task -> exit code."""
        return {task: int(row['exit']) for task, row in self.tasks.items()}

    def check(self, want_code: int = 0) -> 'Result':
        """Returns this result; raises an AssertionError with every task's last lines if the exit code is another."""
        if self.code != want_code:
            logs = {'launcher': self.out + self.err, **self.logs}
            tails = (f'--- {name}\n{_tail(text)}' for name, text in logs.items())
            raise AssertionError('\n'.join([f'exit {self.code}, want {want_code}', *tails]))
        return self


class LocalCluster:
    """A cluster that `--local_cluster` runs; used as a context manager it leaves no process behind.

    Args:
        spec: the tasks, such as 'chief:1,worker:2,ps:1,evaluator:1'.
        *arguments: flags of `python -m estimator_trainer`.
        model_dir: the common directory; relative to `cwd`.
        cwd: the current directory of all tasks.
        fork: whether the tasks are forks of one process that imports TensorFlow once: a cluster starts in a few seconds
            instead of as many a task. Else each is a fresh process.
        **variables: more of the environment.
    """

    def __init__(self, spec: str, *arguments: str, model_dir: Any, cwd: Any = '.', fork: bool = True, **variables: str):
        self._run = pathlib.Path(cwd, model_dir, 'run')
        environ = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'} | variables
        flags = [f'--local_cluster={spec}', f'--model_dir={model_dir}', *arguments, *(['--fork_tasks'] * fork)]
        self.launcher = subprocess.Popen(
            [sys.executable, '-m', 'estimator_trainer', *flags],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> 'LocalCluster':
        return self

    def __exit__(self, *_: object) -> None:
        if self.launcher.poll() is None:
            self._kill()

    def _kill(self) -> tuple[str, str]:
        """Kills the launcher and all tasks; returns what the launcher had printed."""
        self.launcher.send_signal(signal.SIGKILL)
        for path in self._run.glob('*.json'):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                record = json.loads(path.read_text())
                if record['state'] not in ENDED:  # else another process may have its id now
                    os.kill(record['pid'], signal.SIGKILL)
        return self.launcher.communicate(timeout=30)

    def record(self, task: str) -> dict[str, Any]:
        """Returns what a task ('worker:1') has last written of itself to the ledger, {} while there is nothing."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self._run / f'{task.replace(":", "-")}.json').read_text())
        return {}

    def wait_until(self, task: str, state: str, steps: int = 0, seconds: float = 100) -> dict[str, Any]:
        """Waits until a task is in a state of the ledger ('training') and has made so many steps; returns its record.

        Raises:
            AssertionError: it took too long, or the cluster has ended.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.launcher.poll() is None:
            record = self.record(task)
            if record.get('state') == state and (record.get('steps') or 0) >= steps:
                return record
            time.sleep(0.1)
        raise AssertionError(f'{task} is not {state} with {steps} steps within {seconds} s: {self.record(task)}')

    def signal(self, task: str, number: signal.Signals) -> None:
        """Sends a signal to a task."""
        os.kill(self.record(task)['pid'], number)

    def finish(self, timeout: float = 120) -> Result:
        """Waits for the end of all tasks.

        Raises:
            AssertionError: it takes longer than so many seconds; all tasks are killed.
        """
        try:
            out, err = self.launcher.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            states = {task: self.record(task).get('state') for task in self._logs()}
            out, err = self._kill()
            logs = {'launcher': out + err, **self._logs()}
            tails = (f'--- {name}\n{_tail(text)}' for name, text in logs.items())
            raise AssertionError('\n'.join([f'not done within {timeout} s: {states}', *tails])) from None
        return Result(self.launcher.returncode, out, err, _table(out), self._logs())

    def _logs(self) -> dict[str, str]:
        paths = sorted((self._run / 'logs').glob('*.log'))
        return {path.stem.replace('-', ':'): path.read_text(errors='replace') for path in paths}


def _table(out: str) -> dict[str, dict[str, str]]:
    lines = [line.split() for line in out.splitlines()]
    header = ['task', 'host', 'status', 'steps', 'examples', 'seconds', 'exit']
    rows = lines[lines.index(header) + 1 :] if header in lines else []
    return {row[0]: dict(zip(header, row, strict=False)) for row in rows}


def _tail(text: str) -> str:
    return '\n'.join(text.splitlines()[-_TAIL_LINES:])
