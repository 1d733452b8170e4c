"""Files in model_dir, on any file system that TensorFlow knows (local, gs://, hdfs:// ...)."""

import contextlib
import os

from estimator_trainer.compat import tf


def makedirs(path: str) -> None:
    """Creates a directory and its parents; an existing one is fine."""
    tf.io.gfile.makedirs(path)


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
