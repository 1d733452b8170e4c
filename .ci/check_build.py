"""Checks BUILD: `bazel query //...` works, and every source file of the repository belongs to a target.

Run it in a checkout: `python .ci/check_build.py`. It needs Bazel, any version with native Python rules, and no network.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What BUILD has to list: code and configurations wherever they are, and whatever else is in a package or in tests/.
SOURCES = ['*.py', '*.gin', 'estimator_trainer', 'model_fns', 'input_fns', 'configs', 'tests']
QUERY = '//... union labels(srcs, //...) union labels(data, //...)'
SECONDS = 300


def run(*command: str) -> str:
    """Returns a command's output; what it says on standard error is shown."""
    return subprocess.run(
        command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=SECONDS
    ).stdout


def listed_by_bazel() -> tuple[list[str], set[str]]:
    """Returns the names of the rules, and the paths of the files that they list."""
    with tempfile.TemporaryDirectory() as output:
        # --batch leaves no server behind, and --output_user_root nothing in the home directory.
        lines = run(
            'bazel',
            '--batch',
            f'--output_user_root={output}',
            'query',
            '--noshow_progress',
            '--output=label_kind',
            QUERY,
        ).splitlines()
    rules, files = [], set()
    for line in lines:
        kind, _, label = line.rpartition(' ')
        path = label.removeprefix('//').replace(':', '/').lstrip('/')
        if kind == 'source file':
            files.add(path)
        else:
            rules.append(label)
    return rules, files


def main() -> int:
    """Returns the exit code: 0 if BUILD is complete."""
    if not shutil.which('bazel'):
        print('check_build: there is no bazel. On Debian: apt-get update && apt-get install bazel-bootstrap')
        return 1
    tracked = run('git', 'ls-files', '-z', '--', *SOURCES).split('\0')
    # A file may be deleted but not yet committed.
    sources = {path for path in tracked if path and (ROOT / path).exists()}
    try:
        rules, files = listed_by_bazel()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f'check_build: bazel query failed: {error}')
        return 1
    # A query does not look whether a file that BUILD names is there.
    faults = [f'{path} is in no target of BUILD' for path in sorted(sources - files)]
    faults += [f'BUILD names {path}, which does not exist' for path in sorted(files) if not (ROOT / path).exists()]
    for fault in faults:
        print(f'check_build: {fault}')
    if not faults:
        print(f'check_build: {len(rules)} targets list all {len(sources)} source files')
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main())
