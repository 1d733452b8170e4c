"""Files in model_dir, on any file system that TensorFlow knows (local, gs://, hdfs:// ...)."""

import contextlib
import os
import tempfile

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError


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
