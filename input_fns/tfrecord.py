"""TFRecord files of tf.train.Example."""

import os
import zlib
from collections.abc import Iterable

import gin

from estimator_trainer.compat import tf
from estimator_trainer.errors import nearest
from estimator_trainer.features import Description, Feature
from input_fns import records, values
from input_fns.files import find
from input_fns.forms import Form
from input_fns.reading import BadFile, compression_of, filled, opened

_NAME = 'tfrecord_input_fn'
# Bytes of a record before and after its data: its length, 8, and a checksum, 4, then another. Source: the format as in
# https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
_HEAD, _TAIL = 12, 4
_LONGEST = 2**40
_KINDS = {'float_list': 'numbers', 'int64_list': 'whole numbers', 'bytes_list': 'texts'}


@gin.configurable
def tfrecord_input_fn(
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
    """Reads TFRecord files of tf.train.Example, compressed by gzip or not, as `feature_description` says.

    A feature is stored as float_list, int64_list or bytes_list, with as many values as its shape has; one that an
    example lacks takes its default.

    Args:
        files: A path, a glob pattern, or a list of them, found by the rule of `input_fns.files`.
        batch_size: Examples of one step over all synchronous replicas: the global batch.
        shuffle_buffer: Records to draw the next one from, anew in each epoch; 0 keeps the files' order.
        repeat: Whether to begin again at the end of the data, without end.
        seed: Seed of the shuffle; None derives it from `RunConfig.tf_random_seed`.
        cache: Whether the records are kept in memory from the first epoch on.
        max_bad_records: Number of bad records that each process leaves out and tells of. What follows one whose bytes
            are damaged cannot be read: the rest of its file counts as that one record.
        mode: A `tf.estimator.ModeKeys`; PREDICT reads no label.
        input_context: What Estimator tells about the replicas and input pipelines.

    Returns:
        A dataset as that of `csv_input_fn`.

    Raises:
        UserError: A file or number that cannot be as bound, or no `feature_description`. A record that cannot be
            read or parsed raises tf.errors.DataLossError or InvalidArgumentError when it is read.
    """
    description = records.described(_NAME, mode)
    paths = find(files, records.binding(_NAME, 'files'))
    return records.batches(
        _NAME,
        filled(records.binding(_NAME, 'files'), paths, 'records'),
        _TFRecord(description),
        batch_size=batch_size,
        shuffle_buffer=shuffle_buffer,
        repeat=repeat,
        seed=seed,
        cache=cache,
        max_bad_records=max_bad_records,
        input_context=input_context,
    )


class _TFRecord(Form):
    """Serialized tf.train.Example."""

    def __init__(self, description: Description):
        super().__init__()
        self._description = description
        self._parsing = {feature.name: feature.parsing for feature in description.all}
        self._kinds = [(feature, _kind(feature)) for feature in description.all]

    def dataset(self, path, compression):
        return tf.data.TFRecordDataset(path, compression)

    def read(self, path):
        number = 0
        try:
            # As TensorFlow reads them, outside of any graph.
            options = tf.io.TFRecordOptions(compression_of(path))
            for number, record in enumerate(tf.compat.v1.io.tf_record_iterator(path, options), 1):
                yield number, record
        except tf.errors.OpError as error:
            self.check_end(path)  # which knows better if the file was cut short
            if not number and _is_zlib(path):
                raise BadFile(1, 'compressed by zlib; expected gzip or no compression') from None
            # Of a cut record: "truncated record at 192' failed with Read less bytes than requested".
            message = error.message.partition("' failed")[0]
            raise BadFile(number + 1, f'damaged: {message}') from None
        self.check_end(path)

    def ends_unseen(self, compression):
        # In a record's length, or by gzip, for one that ends before.
        return True

    def check_end(self, path):
        number = 1  # of the record that begins here
        try:
            with opened(path) as file:
                while head := file.read(_HEAD):
                    if len(head) < _HEAD:
                        raise BadFile(number, 'cut short: the file ends within a record')
                    length = int.from_bytes(head[:8], 'little')
                    if length > _LONGEST:
                        return  # It is damaged, which TensorFlow finds.
                    file.seek(length + _TAIL, os.SEEK_CUR)
                    number += 1
        except tf.errors.OutOfRangeError:
            return  # It ends within the data, which TensorFlow finds.
        except EOFError:
            raise BadFile(number, 'the gzip file is cut short') from None
        except (OSError, zlib.error, tf.errors.OpError) as error:
            raise BadFile(number, f'cannot be read: {getattr(error, "message", error)}') from None

    def place(self, path, number):
        return f'{path}: record {number}'

    def check(self, record: bytes) -> None:
        try:
            stored = tf.train.Example.FromString(record).features.feature
        except Exception:  # protobuf's DecodeError, which has no public place in all its versions
            raise ValueError(f'{len(record)} bytes that are no tf.train.Example') from None
        # It differs in what follows its context, which an Example would hold features in.
        if not stored and tf.train.SequenceExample.FromString(record).feature_lists.feature_list:
            raise ValueError('a tf.train.SequenceExample; expected tf.train.Example')
        for feature, kind in self._kinds:
            try:
                # Not stored[name]: that would add what is not there.
                self._check(feature, kind, stored.get(feature.name))
            except ValueError as error:
                hint = '' if feature.name in stored else nearest(feature.name, stored)
                raise ValueError(f'feature {feature.name!r}: {error}{hint}') from None

    def _check(self, feature: Feature, kind: str, stored: tf.train.Feature | None) -> None:
        found = stored.WhichOneof('kind') if stored is not None else None
        if found is None:
            self.missing(feature)
            return
        if found != kind:
            raise ValueError(f'{found}; expected {kind} ({_KINDS[kind]}) for dtype {feature.dtype}')
        held = getattr(stored, kind).value
        if len(held) != feature.size:
            raise ValueError(f'{len(held)} values; expected {feature.size}')
        for value in held:
            feature.check(value)

    def parse(self, examples):
        return values.example(self._description, tf.io.parse_example(examples, self._parsing))


def _kind(feature: Feature) -> str:
    """Returns the kind of list that holds a feature's values."""
    return 'bytes_list' if feature.dtype == 'string' else 'int64_list' if feature.is_whole else 'float_list'


def _is_zlib(path: str) -> bool:
    with tf.io.gfile.GFile(path, 'rb') as file:
        head = file.read(2)
    # Source: RFC 1950, 2.2.
    return head[:1] == b'x' and int.from_bytes(head, 'big') % 31 == 0
