"""Writes predictions, one record an example, as .jsonl, .csv or .tfrecord; the file appears when it is complete."""

import base64
import contextlib
import csv
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from estimator_trainer import files
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError, UserError, nearest

# Takes an example's number from 1 and its arrays.
_Writer = Callable[[int, dict[str, np.ndarray]], None]


def check_output(path: str) -> None:
    """Checks that predictions can be written to a path; writes nothing.

    Raises:
        UserError: its suffix is not known, it is a directory, or its folder cannot be written to.
    """
    suffix = os.path.splitext(path)[1]
    if path.startswith(('http://', 'https://')):
        raise UserError(f'--output: {path}: cannot be written to over HTTP')
    if suffix not in _WRITERS:
        raise UserError(
            f'--output: {path!r}: expected a name that ends in {", ".join(_WRITERS)}{nearest(suffix, _WRITERS)}'
        )
    if tf.io.gfile.isdir(path):
        raise UserError(f'--output: {path}: expected a file, found a directory')
    files.check_writable(os.path.dirname(path) or '.', '--output')


def write(path: str, examples: Iterable[Mapping[str, np.ndarray] | np.ndarray]) -> int:
    """Writes one record an example, in order, and puts them in place of `path` when all are written.

    * .jsonl: arrays as nested lists; bytes as text, or {"b64": ...} where they are no UTF-8; a number that is not
      finite as null.
    * .csv: a header; the column of an array's element is `name_<index>`, `name_<row>_<column>` ...
    * .tfrecord: tf.train.Example; arrays flattened, floats as float32, whole numbers and truth values as int64.

    Args:
        path: any that `check_output` accepts, on any file system that TensorFlow knows.
        examples: key -> array of one example; an array alone has the key 'predictions'.

    Returns:
        The number of examples; 0 leaves everything as it was.

    Raises:
        TrainerError: a value that the format cannot hold.
    """
    examples = iter(examples)
    first = next(examples, None)
    if first is None:
        return 0
    files.makedirs(os.path.dirname(path) or '.')
    temporary = _temporary(path)
    try:
        with _WRITERS[os.path.splitext(path)[1]](temporary) as write_record:
            for number, example in enumerate(itertools.chain([first], examples), 1):
                write_record(number, _arrays(number, example))
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        discard(path)
        raise
    return number


def discard(path: str) -> None:
    """Removes what `write` has written for `path` so far: for a process that will not go on."""
    with contextlib.suppress(tf.errors.OpError):
        tf.io.gfile.remove(_temporary(path))


def _temporary(path: str) -> str:
    return f'{path}.{os.getpid()}.tmp'


def _arrays(number: int, example: Mapping[str, Any] | np.ndarray) -> dict[str, np.ndarray]:
    """Returns arrays of bool, integers, floats that numpy itself has, or bytes and str objects."""
    if not isinstance(example, Mapping):
        example = {'predictions': example}
    arrays = {}
    for key, value in example.items():
        # numpy's own dtypes for text would drop zero bytes at the end.
        array = np.asarray(value, object if isinstance(value, bytes | str) else None)
        if array.dtype.name == 'bfloat16':
            array = array.astype(np.float32)
        if array.dtype.kind not in 'biufOSU':
            raise TrainerError(f'prediction {number}, {key!r}: expected numbers or text, found {array.dtype.name}')
        arrays[str(key)] = array
    return arrays


def _plain(array: np.ndarray) -> np.ndarray:
    """Returns an object array of Python's values; those of floats are the shortest that read back the same."""
    if array.dtype.kind == 'f' and array.itemsize < 8:
        array = array.astype('U').astype(np.float64)
    return array.astype(object)


def _text(value: bytes | str) -> str | dict[str, str]:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return {'b64': base64.b64encode(value).decode()}


@contextlib.contextmanager
def _jsonl(path: str) -> Iterator[_Writer]:
    def values(array):
        plain = _plain(array)
        if array.dtype.kind == 'f':
            plain = np.where(np.isfinite(array), plain, None)
        elif array.dtype.kind in 'OSU':
            plain = np.frompyfunc(_text, 1, 1)(plain)
        return plain.tolist() if isinstance(plain, np.ndarray) else plain

    with tf.io.gfile.GFile(path, 'w') as file:

        def write_record(number, arrays):
            record = {key: values(array) for key, array in arrays.items()}
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + '\n')

        yield write_record


@contextlib.contextmanager
def _csv(path: str) -> Iterator[_Writer]:
    shapes = {}

    with tf.io.gfile.GFile(path, 'w') as file:
        writer = csv.writer(file, lineterminator='\n')

        def write_record(number, arrays):
            if number == 1:
                shapes.update((key, array.shape) for key, array in arrays.items())
                header = ['_'.join([key, *map(str, i)]) for key in shapes for i in np.ndindex(shapes[key])]
                if len(set(header)) < len(header):
                    twice = next(name for name in header if header.count(name) > 1)
                    raise TrainerError(f'two predictions make a column {twice!r}; expected other names, or .jsonl')
                writer.writerow(header)
            for key in {**shapes, **arrays}:
                found, want = getattr(arrays.get(key), 'shape', 'none'), shapes.get(key, 'none')
                if found != want:
                    raise TrainerError(f'prediction {number}, {key!r}: the shape is {found}, in the first it is {want}')
            cells = itertools.chain.from_iterable(_plain(arrays[key]).flat for key in shapes)
            writer.writerow(map(_cell, cells))

        yield write_record


def _cell(value: Any) -> Any:
    text = _text(value) if isinstance(value, bytes) else value
    return json.dumps(text) if isinstance(text, dict) else text


@contextlib.contextmanager
def _tfrecord(path: str) -> Iterator[_Writer]:
    with tf.io.TFRecordWriter(path) as writer:

        def write_record(number, arrays):
            features = {key: _feature(number, key, array) for key, array in arrays.items()}
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

        yield write_record


def _feature(number: int, key: str, array: np.ndarray) -> tf.train.Feature:
    flat = array.ravel().tolist()  # Python's own values: protobuf does not take every scalar of numpy.
    if array.dtype.kind == 'f':
        return tf.train.Feature(float_list=tf.train.FloatList(value=flat))
    if array.dtype.kind in 'OSU':
        encoded = [value.encode() if isinstance(value, str) else value for value in flat]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if max(flat, default=0) >= 2**63:
        raise TrainerError(f'prediction {number}, {key!r}: tf.train.Example holds int64, found {max(flat)}')
    return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, flat)))  # Not of bools.


_WRITERS = {'.jsonl': _jsonl, '.csv': _csv, '.tfrecord': _tfrecord}
SUFFIXES = tuple(_WRITERS)
