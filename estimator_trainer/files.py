"""Files on any file system that TensorFlow knows (local, gs://, hdfs:// ...): where they are, reading, writing."""

import contextlib
import os
import stat
import tempfile

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.gin_config.sources import INSTALL_ROOT

_NO_FILES = (
    (stat.S_ISDIR, 'a directory'),
    (stat.S_ISFIFO, 'a pipe'),
    (stat.S_ISSOCK, 'a socket'),
    (stat.S_ISCHR, 'a device'),
    (stat.S_ISBLK, 'a device'),
)


def makedirs(path: str) -> None:
    """Creates a directory and its parents; an existing one is fine."""
    tf.io.gfile.makedirs(path)


def check_writable(path: str, where: str) -> None:
    """Checks that files can be made in a local directory, or in the nearest that is there above it; writes nothing.

    Raises:
        UserError: they cannot; `where` is the flag or binding that names the directory.
    """
    if '://' in path:
        return  # Only writing to it would tell.
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(f'{where}: {path}: cannot write to {there}: {error.strerror}') from None


def places(path: str) -> list[str]:
    """Returns where an input is looked for: as given, then beside the installed packages, which ship some."""
    # os.path.join leaves absolute paths alone, and a scheme such as gs:// is a place of its own.
    return [path] if '://' in path else list(dict.fromkeys([path, os.path.join(INSTALL_ROOT, path)]))


def no_file(path: str) -> str | None:
    """Returns what a local path is if it is no file ('a directory', 'a pipe' ...), which nobody could read twice."""
    try:
        mode = 0 if '://' in path else os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return next((what for is_it, what in _NO_FILES if is_it(mode)), None)


def read(path: str) -> str:
    """Returns a file's content as text."""
    with tf.io.gfile.GFile(path, 'r') as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Replaces a file's content."""
    with tf.io.gfile.GFile(path, 'w') as file:
        file.write(text)


def replace(path: str, text: str) -> None:
    """Replaces a file's content so that a reader sees the old text or the new, never a part."""
    makedirs(os.path.dirname(path))
    temporary = f'{path}.{os.getpid()}.tmp'
    try:
        write(temporary, text)
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(tf.errors.OpError):
            tf.io.gfile.remove(temporary)
        raise
