"""Examples in memory: NumPy arrays, or a pandas.DataFrame."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gin
import numpy as np

from estimator_trainer import input_checks
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from estimator_trainer.features import Description, Feature
from input_fns import records, values
from input_fns.files import find
from input_fns.forms import Form

_NAME = 'memory_input_fn'


@gin.configurable
def memory_input_fn(
    data: Callable[[], Any] | Any = gin.REQUIRED,
    batch_size: int = 32,
    shuffle_buffer: int | None = None,
    repeat: bool = True,
    seed: int | None = None,
    mode: str | None = None,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Reads examples that are in memory, as `feature_description` says.

    The arrays are no part of the graph, however large they are. All values are checked before training. Where several
    input pipelines read, each takes every n-th example.

    Args:
        data: A mapping of names to arrays [examples, *shape], such as a dict or a pandas.DataFrame, or a function that
            returns one: `@npz_arrays`, `@my_function`. None, NaN, pandas.NA and what is masked are missing values.
        batch_size: Examples of one step over all synchronous replicas: the global batch.
        shuffle_buffer: Examples to draw the next one from, anew in each epoch; None takes all, 0 keeps their order.
        repeat: Whether to begin again at the end of the data, without end.
        seed: Seed of the shuffle; None derives it from `RunConfig.tf_random_seed`.
        mode: A `tf.estimator.ModeKeys`; PREDICT reads no label.
        input_context: What Estimator tells about the replicas and input pipelines.

    Returns:
        A dataset as that of `csv_input_fn`.

    Raises:
        UserError: The data are not as described.
    """
    description = records.described(_NAME, mode)
    size = records.replica_batch_size(_NAME, batch_size, input_context)
    records.check_counts(_NAME, shuffle_buffer=shuffle_buffer or 0)
    where = records.binding(_NAME, 'data')
    table = data() if callable(data) else data
    if not hasattr(table, 'keys') or not hasattr(table, '__getitem__'):
        raise UserError(f'{where}: {type(table).__name__}; expected a dict of arrays or a pandas.DataFrame')
    keys = {str(key): key for key in table.keys()}  # noqa: SIM118  of a DataFrame
    for feature in description.all:
        if feature.name not in keys:
            hint = nearest(feature.name, keys)
            raise UserError(f'{where}: no column {feature.name!r} among {", ".join(keys)}{hint}')
    try:
        form = _Rows(description, {feature.name: table[keys[feature.name]] for feature in description.all})
    except ValueError as error:
        raise UserError(f'{where}: {error}') from None
    input_checks.register(form)
    numbers = tf.data.Dataset.range(form.count)
    if input_context is not None:
        numbers = numbers.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    buffer = form.count if shuffle_buffer is None else shuffle_buffer
    return records.examples(numbers, form, size, buffer, repeat, seed)


class _Rows(Form):
    """Rows of columns, which are looked at when this is made; a record is the number of a row.

    Attributes:
        count: number of rows.
    """

    max_bad_records = 0
    files = 'memory'

    def __init__(self, description: Description, columns: Mapping[str, Any]):
        """Takes the columns.

        Raises:
            ValueError: they are not as described.
        """
        super().__init__()
        self._description = description
        self._columns = {feature.name: self._column(feature, columns[feature.name]) for feature in description.all}
        lengths = {name: len(column) for name, column in self._columns.items()}
        self.count = self._seen = next(iter(lengths.values()))
        if len(set(lengths.values())) > 1:
            counts = ', '.join(f'{name} {length:,}' for name, length in lengths.items())
            raise ValueError(f'columns of different lengths: {counts}')
        if not self.count:
            raise ValueError('no examples')

    def _column(self, feature: Feature, column: Any) -> np.ndarray:
        """Returns the values of a feature, [examples, *shape], in its dtype; strings as bytes."""
        place = f'column {feature.name!r}'
        try:
            array = _array(column)
        except ValueError as error:  # lists of different lengths
            raise ValueError(f'{place}: {error}') from None
        if not array.ndim or array.shape[1:] != feature.shape:
            expected = ', '.join(map(str, ('examples', *feature.shape)))
            raise ValueError(f'{place}: shape {list(array.shape)}; expected [{expected}]')
        if array.dtype.kind in 'mM':  # as objects they would be whole numbers
            raise ValueError(f'{place}: {array.dtype}; expected {feature.dtype}')
        flat = array.reshape(-1)
        suspects = _suspects(feature, flat)
        if len(suspects):
            flat = flat.astype(object)
        for index in suspects:
            try:
                if _is_missing(flat[index]):
                    flat[index] = self.missing(feature)
                else:
                    feature.check(flat[index])
            except ValueError as error:
                raise ValueError(f'{place}, row {index // feature.size}: {error}') from None
        if feature.dtype == 'string':
            flat = np.array([value.encode() if isinstance(value, str) else value for value in flat], object)
            return flat.reshape(array.shape)
        return flat.astype(feature.dtype).reshape(array.shape)

    def examine(self) -> Iterator[None]:
        """See `input_checks.InputCheck`: all was looked at before."""
        yield None

    def parse(self, numbers):
        wanted = self._description.all
        dtypes = [tf.as_dtype(feature.dtype) for feature in wanted]
        found = tf.numpy_function(lambda rows: [self._columns[it.name][rows] for it in wanted], [numbers], dtypes)
        batch = {}
        for feature, value in zip(wanted, found, strict=True):
            value.set_shape([None, *feature.shape])
            batch[feature.name] = value
        return values.example(self._description, batch)


def _array(column: Any) -> np.ndarray:
    if not np.ma.is_masked(column):
        return np.asarray(column)
    array = np.ma.getdata(column).astype(object)
    array[np.ma.getmaskarray(column)] = None
    return array


def _suspects(feature: Feature, flat: np.ndarray) -> np.ndarray:
    """Returns the places of the values that have to be looked at one by one: of those that may be bad or missing."""
    if flat.dtype.kind not in 'iuf' or feature.dtype == 'string':
        return np.arange(len(flat))
    with np.errstate(over='ignore', invalid='ignore'):
        kept = flat.astype(feature.given)
        # As floats, 2**63 and what becomes of it may be equal.
        same = (kept == flat) & (np.abs(flat.astype(np.float64)) < 2.0**63)
    good = same if feature.is_whole else np.isfinite(kept)
    if feature.num_buckets is not None:
        good &= (flat >= 0) & (flat < feature.num_buckets)
    if feature.vocabulary is not None and feature.must_be_known:
        good &= np.isin(flat, feature.vocabulary)
    return np.flatnonzero(~good)


def _is_missing(value: Any) -> bool:
    # pandas.NA is not even unlike itself.
    is_nan = isinstance(value, float | np.floating) and value != value
    return is_nan or value is None or type(value).__name__ in ('NAType', 'NaTType')


@gin.configurable
def npz_arrays(file: str = gin.REQUIRED) -> Mapping[str, np.ndarray]:
    """Returns the arrays of a .npz file, found by the rule of `input_fns.files`.

    Raises:
        UserError: The file is no such file.
    """
    where = records.binding('npz_arrays', 'file')
    path, *more = find(file, where)
    if more:
        raise UserError(f'{where}: {len(more) + 1} files match {file!r}; expected one')
    try:
        with tf.io.gfile.GFile(path, 'rb') as opened, np.load(opened, allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, OSError, EOFError, AttributeError) as error:
        raise UserError(f'{where}: {path} is no .npz file of arrays: {error}') from None
    except Exception as error:  # zipfile.BadZipFile, zlib.error, tf.errors.OpError: depends on what is broken
        raise UserError(f'{where}: cannot read {path}: {getattr(error, "message", error)}') from None
