"""Runs each of {name: arguments} from stdin in a fork that has TensorFlow imported; prints {name: [code, out, err]}.

A program of its own: a fork must come from a process that has run no op yet, which a test process may have.
"""

import json
import os
import sys
import tempfile
import threading

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from estimator_trainer import compat  # noqa: F401
from estimator_trainer.cli import main


def run(arguments: list[str], timeout: float) -> tuple[int, str, str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            # As `python -m` has it, not as this script does.
            sys.path[0] = os.getcwd()
            code = main(['estimator_trainer', *arguments])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        timer = threading.Timer(timeout, os.kill, (pid, 9))
        timer.start()
        _, status = os.waitpid(pid, 0)
        timer.cancel()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        return os.waitstatus_to_exitcode(status), *texts


if __name__ == '__main__':
    results = {name: run(case, float(sys.argv[1])) for name, case in json.load(sys.stdin).items()}
    print(json.dumps(results))
