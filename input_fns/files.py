"""Where input files are looked for: as given, then beside the installed packages."""

import itertools
import os
from collections.abc import Iterable

from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.files import no_file, places

_LISTED = 6  # of the files that are not there so many are told


def find(files: str | Iterable[str], binding: str) -> list[str]:
    """Returns the paths of the files that `files` names.

    Args:
        files: A path, a glob pattern, or a list of them. Anything `tf.io.gfile` reads will do, `gs://` included.
        binding: The Gin binding that holds `files`, to name in an error.

    Returns:
        The paths, in the order of `files`, each pattern's matches sorted: every process of a cluster gets the same
        list. A file that two patterns match is listed once.

    Raises:
        UserError: `files` is empty, or a path does not exist or is no file, or a pattern matches nothing.
    """
    patterns = [files] if isinstance(files, str) else list(files)
    if not patterns:
        raise UserError(f'{binding}: names no file; expected a path, a glob pattern or a list of them')
    found: dict[str, str] = {}
    lacking: list[str] = []
    try:
        for pattern in map(os.fspath, patterns):
            paths = _find_one(pattern)
            for path in paths:
                # `a.csv` and `./a.csv` are one file.
                found.setdefault(path if '://' in path else os.path.normpath(path), path)
            lacking += [] if paths else [pattern]
        hint = nearest(lacking[0], _neighbours(lacking[0])) if lacking else ''
    except UnicodeDecodeError as error:
        raise UserError(f'{binding}: a file whose name is no UTF-8 text: {error.object!r}') from None
    for path in (*found.values(), *itertools.chain(*map(places, lacking))):
        if what := no_file(path):
            raise UserError(f'{binding}: {path!r} is {what}; expected a file')
    if lacking:
        more = f' (nor {len(lacking) - 1} more: {", ".join(lacking[1:_LISTED])})' if len(lacking) > 1 else ''
        raise UserError(f'{binding}: no file {" or ".join(map(repr, places(lacking[0])))}{hint}{more}')
    return list(found.values())


def _find_one(pattern: str) -> list[str]:
    for place in places(pattern):
        if tf.io.gfile.exists(place) and not tf.io.gfile.isdir(place):
            return [place]
        if matches := [match for match in tf.io.gfile.glob(place) if not tf.io.gfile.isdir(match)]:
            # gfile puts ./ before what a pattern without a folder matches.
            return sorted(match.removeprefix('./') for match in matches)
    return []


def _neighbours(pattern: str) -> list[str]:
    """Returns what lies in the folders where the file was looked for, each written as `pattern` is."""
    folders = [os.path.dirname(place) or '.' for place in places(pattern)]
    names = [name for folder in folders if tf.io.gfile.isdir(folder) for name in tf.io.gfile.listdir(folder)]
    return [os.path.join(os.path.dirname(pattern), name) for name in names]
