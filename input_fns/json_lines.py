"""Files with a JSON object a line."""

import collections
import json
from collections.abc import Iterable, Sequence
from typing import Any

import gin
import numpy as np

from estimator_trainer.compat import tf
from estimator_trainer.errors import nearest
from estimator_trainer.features import Description, Feature, shown
from input_fns import records, values
from input_fns.files import find
from input_fns.forms import Lines
from input_fns.reading import filled

_NAME = 'json_lines_input_fn'


@gin.configurable
def json_lines_input_fn(
    files: str | Iterable[str] = gin.REQUIRED,
    batch_size: int = 32,
    shuffle_buffer: int = 10_000,
    repeat: bool = True,
    seed: int | None = None,
    cache: bool = False,
    max_bad_records: int = 0,
    mode: str | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads files with a JSON object a line, compressed by gzip or not, as `feature_description` says.

    A feature is a key of the object: a number, a text, or lists of them of the feature's shape. One that an object
    lacks, or that is null, takes its default; other keys are left alone. A blank line is left out. Python reads the
    objects, several times as slowly as TensorFlow reads CSV.

    Args:
        files: A path, a glob pattern, or a list of them, found by the rule of `input_fns.files`.
        batch_size: Examples of one step over all synchronous replicas: the global batch.
        shuffle_buffer: Records to draw the next one from, anew in each epoch; 0 keeps the files' order.
        repeat: Whether to begin again at the end of the data, without end.
        seed: Seed of the shuffle; None derives it from `RunConfig.tf_random_seed`.
        cache: Whether the records are kept in memory from the first epoch on.
        max_bad_records: Number of bad records that each process leaves out and tells of.
        mode: A `tf.estimator.ModeKeys`; PREDICT reads no label.
        input_context: What Estimator tells about the replicas and input pipelines.

    Returns:
        A dataset as that of `csv_input_fn`.

    Raises:
        UserError: A file or number that cannot be as bound, or no `feature_description`. A record that is bad raises
            tf.errors.OpError when it is read.
    """
    description = records.described(_NAME, mode)
    paths = find(files, records.binding(_NAME, 'files'))
    return records.batches(
        _NAME,
        filled(records.binding(_NAME, 'files'), paths, 'a JSON object a line'),
        _JsonLines(description),
        batch_size=batch_size,
        shuffle_buffer=shuffle_buffer,
        repeat=repeat,
        seed=seed,
        cache=cache,
        max_bad_records=max_bad_records,
        input_context=input_context,
    )


class _JsonLines(Lines):
    """JSON objects."""

    def __init__(self, description: Description):
        super().__init__()
        self._description = description

    def check(self, record: bytes) -> None:
        found = _object(record)
        for feature in self._description.all:
            self._values(feature, found)

    def _values(self, feature: Feature, found: dict[str, Any]) -> list[Any]:
        """Returns the values of a feature."""
        value = found.get(feature.name)
        try:
            if value is None:
                return [self.missing(feature)] * feature.size
            flat = _flat(value, feature.shape)
            for one in flat:
                feature.check(one)
        except ValueError as error:
            hint = '' if feature.name in found else nearest(feature.name, found)
            raise ValueError(f'key {feature.name!r}: {error}{hint}') from None
        return flat

    def parse(self, lines):
        wanted = self._description.all
        dtypes = [tf.int64 if feature.is_whole else tf.as_dtype(feature.dtype) for feature in wanted]
        arrays = tf.numpy_function(self._arrays, [lines], dtypes)
        batch = {}
        for feature, array in zip(wanted, arrays, strict=True):
            array.set_shape([None, *feature.shape])
            batch[feature.name] = array
        return values.example(self._description, batch)

    def _arrays(self, lines: np.ndarray) -> list[np.ndarray]:
        rows = [_object(line) for line in lines if not self.is_blank(line)]
        with np.errstate(over='ignore'):  # `values.example` finds what has become infinite
            return [self._array(feature, rows) for feature in self._description.all]

    def _array(self, feature: Feature, rows: Sequence[dict[str, Any]]) -> np.ndarray:
        flat = [row.get(feature.name) for row in rows]
        # Values that are what they should be need no look at each; whether they are in range is looked at in the graph.
        kinds = {str} if feature.dtype == 'string' else {int} if feature.is_whole else {int, float}
        if feature.shape or not kinds.issuperset(map(type, flat)):
            flat = [one for row in rows for one in self._values(feature, row)]
        if feature.dtype == 'string':
            array = np.array([one.encode() for one in flat], object)
        else:
            array = np.array(flat, np.int64 if feature.is_whole else feature.dtype)
        return array.reshape(len(rows), *feature.shape)


def _object(record: bytes) -> dict[str, Any]:
    """Returns the JSON object that a line holds.

    Raises:
        ValueError: it holds none.
    """
    try:
        found = _DECODER.decode(record.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f'no UTF-8 text at byte {error.start + 1}') from None
    except json.JSONDecodeError as error:
        raise ValueError(f'no JSON at column {error.colno}: {error.msg}') from None
    except RecursionError:
        raise ValueError('too many brackets within brackets') from None
    except ValueError as error:
        raise ValueError('a number of too many digits' if 'set_int_max_str_digits' in str(error) else error) from None
    if not isinstance(found, dict):
        raise ValueError(f'{shown(found)}; expected a JSON object, {{"name": value, ...}}')
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated = next(name for name, count in collections.Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f'key {repeated!r} occurs twice')
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


def _flat(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Returns the elements of nested lists of a shape.

    Raises:
        ValueError: they have another one.
    """
    if not shape:
        if isinstance(value, list | dict):
            raise ValueError(f'{shown(value)}; expected one value')
        return [value]
    if not isinstance(value, list) or len(value) != shape[0]:
        found = f'a list of {len(value)}' if isinstance(value, list) else shown(value)
        raise ValueError(f'{found}; expected a list of {shape[0]}')
    return [one for part in value for one in _flat(part, shape[1:])]
