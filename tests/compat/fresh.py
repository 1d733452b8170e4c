"""Runs code in a Python of its own: for what TensorFlow allows once a process, or only before its first use."""

import os
import subprocess
import sys
from pathlib import Path

SECONDS = 200


def start(*command: str, **environment: str) -> subprocess.Popen:
    """Starts Python; `environment` is added to this one's, less TF_CONFIG and TF_USE_LEGACY_KERAS."""
    variables = {key: value for key, value in os.environ.items() if key not in ('TF_CONFIG', 'TF_USE_LEGACY_KERAS')}
    return subprocess.Popen(
        [sys.executable, *command],
        # Not the checkout, which `python -c` would import instead of what is installed.
        cwd=Path(__file__).parent,
        env={**variables, 'TF_CPP_MIN_LOG_LEVEL': '3', **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Returns a process's exit code and what it printed on standard output and on standard error."""
    try:
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    return process.returncode, out, err


def last_line(process: subprocess.Popen) -> str:
    """Returns the last line that a process printed on standard output; it has to exit with 0."""
    code, out, err = finish(process)
    assert code == 0, err[-4000:]
    return out.splitlines()[-1]
