"""Files of records as batches: sharded, cached, shuffled, repeated, batched, then parsed; and which records are bad.

Good records are read by TensorFlow alone. Where it fails, or before training, or where bad records are to be skipped,
Python reads the same files with its own eyes (`Form.read`, `Form.check`) and says which record is bad.
"""

from collections.abc import Iterator, Sequence

import gin
import numpy as np

from estimator_trainer import input_checks
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.feature_description import feature_description
from estimator_trainer.features import Description
from input_fns.forms import Form, as_it_is
from input_fns.reading import BadFile, compression_of

_CHUNK = 256  # good records handed to TensorFlow at once
_NAMED = 3  # files of an input that are named in an error
# (form, path) -> (length, time of change) of the files that were read to their end.
_ended: dict[tuple[type, str], tuple[int, int] | None] = {}


def binding(name: str, parameter: str) -> str:
    """Returns the name in Gin of an input_fn's parameter, with the scope of the reference that called it."""
    return '/'.join([*gin.current_scope(), f'{name}.{parameter}'])


def described(name: str, mode: str | None) -> Description:
    """Returns the feature description, without the label in PREDICT mode.

    Raises:
        UserError: none is bound.
    """
    description = feature_description()
    if description is None or not description.features:
        raise UserError(f'feature_description.features is not bound; {name} needs it to know the features')
    return description.without_label() if mode == tf.estimator.ModeKeys.PREDICT else description


def batches(
    name: str,
    paths: Sequence[str],
    form: Form,
    *,
    batch_size: int,
    shuffle_buffer: int,
    repeat: bool,
    seed: int | None,
    cache: bool,
    max_bad_records: int,
    input_context: tf.distribute.InputContext | None,
) -> tf.data.Dataset:
    """Returns the batches of one replica of the examples in files.

    Args:
        name: the input_fn's, for errors.
        paths: of the files; dealt out to the input pipelines where there is one for each, else the records are.
        form: of their records.
        batch_size, shuffle_buffer, repeat, seed, cache, max_bad_records, input_context: as in `csv_input_fn`.

    Raises:
        UserError: a number that cannot be as bound.
    """
    size = replica_batch_size(name, batch_size, input_context)
    check_counts(name, shuffle_buffer=shuffle_buffer, max_bad_records=max_bad_records)
    context = input_context or tf.distribute.InputContext()
    shard = (context.num_input_pipelines, context.input_pipeline_id)
    if len(paths) >= context.num_input_pipelines:
        paths, shard = paths[context.input_pipeline_id :: context.num_input_pipelines], (1, 0)
    source = _Source(paths, form, max_bad_records)
    source.mode = input_checks.register(source)
    records = source.good_records() if max_bad_records else source.records()
    # Before the shuffle: pipelines that shuffled first would not agree on who takes which record.
    records = records.shard(*shard) if shard != (1, 0) else records
    # TensorFlow would look through blank lines for a record for ever.
    repeat = repeat and form.holds_any(paths, *shard)
    return examples(records, form, size, shuffle_buffer, repeat, seed, cache)


def examples(
    records: tf.data.Dataset,
    form: Form,
    batch_size: int,
    shuffle_buffer: int,
    repeat: bool,
    seed: int | None,
    cache: bool = False,
) -> tf.data.Dataset:
    """Returns batches of the examples that a form's `parse` makes of records."""
    if cache:
        records = records.cache()
    if shuffle_buffer:
        records = records.shuffle(shuffle_buffer, seed=seed)
    if repeat:
        records = records.repeat()
    parse = as_it_is(form.parse)
    if form.batched:
        # Batched first: decode_csv takes a batch of lines in one call, 14 times as fast as line by line (39 columns).
        batches = form.with_records(records.batch(batch_size), repeat)
        parsed = batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        parsed = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
    return parsed.prefetch(tf.data.AUTOTUNE)


def check_counts(name: str, **counts: int) -> None:
    """Checks that parameters of an input_fn are no negative numbers.

    Raises:
        UserError: one is.
    """
    for parameter, count in counts.items():
        if count < 0:
            raise UserError(f'{binding(name, parameter)}: {count}; expected at least 0')


def replica_batch_size(name: str, batch_size: int, input_context: tf.distribute.InputContext | None) -> int:
    """Returns the part of the global batch that one replica takes."""
    if batch_size < 1:
        raise UserError(f'{binding(name, "batch_size")}: {batch_size}; expected at least 1')
    replicas = 1 if input_context is None else input_context.num_replicas_in_sync
    if batch_size % replicas:
        raise UserError(f'{binding(name, "batch_size")}: {batch_size}; expected a multiple of the {replicas} replicas')
    return batch_size if input_context is None else input_context.get_per_replica_batch_size(batch_size)


class _Source:
    """The records of one input pipeline, as an `input_checks.InputCheck`."""

    def __init__(self, paths: Sequence[str], form: Form, max_bad_records: int):
        self._paths = paths
        self._form = form
        self.max_bad_records = max_bad_records
        self.mode = ''
        self._bad: set[str] = set()

    @property
    def files(self) -> str:
        """See `input_checks.InputCheck`."""
        more = len(self._paths) - _NAMED
        return ', '.join(self._paths[:_NAMED]) + (f' and {more} more files' if more > 0 else '')

    def records(self) -> tf.data.Dataset:
        """Returns the records as TensorFlow reads them."""
        compressions = [compression_of(path) if self._form.compressed else '' for path in self._paths]

        @as_it_is
        def read(path, compression):
            records = self._form.dataset(path, compression)
            if not any(map(self._form.ends_unseen, compressions)):
                return records
            # A dataset in a dataset, for what it checks is then looked at when the records have come to an end.
            return records.concatenate(tf.data.Dataset.from_tensors(path).flat_map(end))

        @as_it_is
        def end(path):
            return tf.data.Dataset.from_tensors('').take(tf.numpy_function(self._no_further_records, [path], tf.int64))

        # Tensors, not paths: one dataset reads all files.
        return tf.data.Dataset.from_tensor_slices((list(self._paths), compressions)).flat_map(read)

    def _no_further_records(self, path: bytes) -> np.int64:
        """Reads a file to its end, unless that has been done; returns 0."""
        place = path.decode()
        key, version = (type(self._form), place), _version(place)
        if _ended.get(key) != version and self._form.ends_unseen(compression_of(place)):
            try:
                self._form.check_end(place)
            except BadFile as error:
                raise input_checks.fail(self.mode, f'{self._form.place(place, error.number)}: {error}') from None
            _ended[key] = version
        return np.int64(0)

    def good_records(self) -> tf.data.Dataset:
        """Returns the records that Python finds good; too many bad ones are an error."""

        def good(path: bytes) -> Iterator[list[bytes]]:
            chunk = []
            for record, bad in self._examined(path.decode()):
                if bad is not None:
                    self._skip(bad)
                else:
                    chunk.append(record)
                if len(chunk) == _CHUNK:
                    yield chunk
                    chunk = []
            if chunk:
                yield chunk

        spec = tf.TensorSpec([None], tf.string)
        paths = tf.data.Dataset.from_tensor_slices(list(self._paths))
        return paths.flat_map(
            as_it_is(lambda path: tf.data.Dataset.from_generator(good, output_signature=spec, args=(path,)).unbatch())
        )

    def _skip(self, bad: str) -> None:
        self._bad.add(bad)
        if len(self._bad) > self.max_bad_records:
            raise input_checks.fail(self.mode, f'{bad}{input_checks.limit(self.max_bad_records)}')
        input_checks.skipped.add(bad)

    def examine(self) -> Iterator[str | None]:
        """See `input_checks.InputCheck`."""
        for path in self._paths:
            for _, bad in self._examined(path):
                yield bad

    def _examined(self, path: str) -> Iterator[tuple[bytes, str | None]]:
        """Yields each record of a file, and its place and what is wrong with it, or None."""
        try:
            version = _version(path)
            for number, record in self._form.read(path):
                mistake = self._form.mistake(record)
                yield record, None if mistake is None else f'{self._form.place(path, number)}: {mistake}'
            _ended[type(self._form), path] = version
        except BadFile as error:
            yield b'', f'{self._form.place(path, error.number)}: {error}'

    def remarks(self) -> list[str]:
        """See `input_checks.InputCheck`."""
        return self._form.remarks()


def _version(path: str) -> tuple[int, int] | None:
    try:
        stat = tf.io.gfile.stat(path)
    except tf.errors.OpError:  # reading it will say so
        return None
    return stat.length, stat.mtime_nsec
