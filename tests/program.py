"""Runs the program in processes of its own: what a test sees of it is what a user sees."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

TESTS = pathlib.Path(__file__).parent


@dataclasses.dataclass
class Result:
    """What a process left: its exit code and all that it printed."""

    code: int
    out: str
    err: str

    def check(self, want_code: int = 0) -> 'Result':
        """Fails the test, and shows what was printed, unless the process ended with `want_code`."""
        assert self.code == want_code, f'exit {self.code}, want {want_code}\n{_tail(self.out)}\n{_tail(self.err)}'
        return self


def _tail(text: str) -> str:
    return '\n'.join(text.splitlines()[-60:])


def environment(**variables: str) -> dict[str, str]:
    """Returns this process's environment, less what a surrounding job may have set."""
    return {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'} | variables


def command(*arguments: str) -> list[str]:
    """Returns the command line of `python -m estimator_trainer` with the arguments."""
    return [sys.executable, '-m', 'estimator_trainer', *arguments]


def start(*arguments: str, cwd: pathlib.Path, **variables: str) -> subprocess.Popen:
    """Starts `python -m estimator_trainer` with the arguments."""
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen, timeout: float = 120) -> Result:
    """Waits for a process that `start` returned; kills it, and fails the test, when it takes too long."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f'not done within {timeout} s\n{_tail(out)}\n{_tail(err)}') from None
    return Result(process.returncode, out, err)


def run(*arguments: str, cwd: pathlib.Path, timeout: float = 120, **variables: str) -> Result:
    """Runs `python -m estimator_trainer` with the arguments."""
    return finish(start(*arguments, cwd=cwd, **variables), timeout)


def run_forked(
    cases: Mapping[str, Sequence[str]], cwd: pathlib.Path, timeout: float = 60, wrapper: Sequence[str] = ()
) -> dict[str, Result]:
    """Runs many command lines, each in a fork of one process that has imported TensorFlow: a second each, not six.

    Args:
        cases: name -> arguments.
        cwd: their current directory.
        timeout: seconds for each.
        wrapper: a command that runs the process, such as `setpriv`.
    """
    process = subprocess.run(
        [*wrapper, sys.executable, str(TESTS / 'fork_server.py'), str(timeout)],
        cwd=cwd,
        env=environment(),
        input=json.dumps(dict(cases)),
        capture_output=True,
        text=True,
        timeout=60 + timeout * len(cases),
    )
    assert process.returncode == 0, process.stderr
    return {name: Result(*result) for name, result in json.loads(process.stdout).items()}


def summary(model_dir: pathlib.Path) -> dict:
    """Returns the content of a run's summary.json."""
    return json.loads((model_dir / 'run' / 'summary.json').read_text())


def bind(*statements: str) -> list[str]:
    """Returns the flags that bind what gin statements say."""
    return [f'--gin_param={statement}' for statement in statements]
