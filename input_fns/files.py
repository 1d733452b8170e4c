"""Where input files are looked for: as given, then beside the installed packages."""

import os
from collections.abc import Iterable

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest

# The parent of this package: the checkout, or site-packages once installed, where the data files lie under the same
# names. So 'input_fns/data/penguins/train.csv' is found from any working directory.
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find(files: str | Iterable[str], binding: str) -> list[str]:
    """Returns the paths of the files that `files` names.

    Args:
        files: A path, a glob pattern, or a list of them. Anything `tf.io.gfile` reads will do, `gs://` included.
        binding: The Gin binding that holds `files`, to name in an error.

    Returns:
        The paths, in the order of `files`, each pattern's matches sorted: every process of a cluster gets the same
        list. A file that two patterns match is listed once.

    Raises:
        UserError: `files` is empty, or a path does not exist, or a pattern matches nothing.
    """
    patterns = [files] if isinstance(files, str) else list(files)
    if not patterns:
        raise UserError(f'{binding}: names no file; expected a path, a glob pattern or a list of them')
    return list(dict.fromkeys(path for pattern in patterns for path in _find_one(os.fspath(pattern), binding)))


def _find_one(pattern: str, binding: str) -> list[str]:
    # os.path.join leaves absolute paths alone, and a scheme such as gs:// is a place of its own.
    places = [pattern] if '://' in pattern else list(dict.fromkeys([pattern, os.path.join(ROOT, pattern)]))
    for place in places:
        if tf.io.gfile.exists(place) and not tf.io.gfile.isdir(place):
            return [place]
        if matches := [match for match in tf.io.gfile.glob(place) if not tf.io.gfile.isdir(match)]:
            # gfile puts ./ before what a pattern without a folder matches: the file would count as another one.
            return sorted(match.removeprefix('./') for match in matches)
    looked = ' or '.join(map(repr, places))
    raise UserError(f'{binding}: no file {looked}{nearest(pattern, _neighbours(places, pattern))}')


def _neighbours(places: list[str], pattern: str) -> list[str]:
    """Returns what lies in the folders where the file was looked for, each written as `pattern` is."""
    folders = [os.path.dirname(place) or '.' for place in places]
    names = [name for folder in folders if tf.io.gfile.isdir(folder) for name in tf.io.gfile.listdir(folder)]
    return [os.path.join(os.path.dirname(pattern), name) for name in names]
