"""A process that is a fork of this one: where this one has imported TensorFlow, the other starts without the wait."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import BinaryIO


class ForkedProcess:
    """Like `subprocess.Popen`, as far as the launcher of local clusters needs it.

    Args:
        main: called in the fork; returns its exit code.
        environ: what is set in the fork's environment.
        output: where its stdout and stderr go.
        before: called first in the fork.
    """

    def __init__(
        self, main: Callable[[], int], environ: Mapping[str, str], output: BinaryIO, before: Callable[[], None]
    ):
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            self._run(main, environ, output, before)

    def _run(self, main, environ, output, before) -> None:
        code = 1
        try:
            os.setsid()
            before()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number in (1, 2):
                os.dup2(output.fileno(), number)
            os.environ.update(environ)
            code = main()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # what the parent has registered to be called at its exit is not for its forks

    def poll(self) -> int | None:
        """Returns the exit code, negative after a signal, or None while the process runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Ends the process at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Waits for the end; raises `subprocess.TimeoutExpired` when it takes longer than so many seconds."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.05)
        return self.returncode
