"""TFRecord files of tf.train.Example, as a test writes them."""

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer.compat import tf

LISTS = {'float_list': tf.train.FloatList, 'int64_list': tf.train.Int64List, 'bytes_list': tf.train.BytesList}


def example(**stored: tuple[str, Sequence[Any]]) -> bytes:
    """Returns a serialized tf.train.Example, of name -> (kind, values)."""
    features = {name: tf.train.Feature(**{kind: LISTS[kind](value=held)}) for name, (kind, held) in stored.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def of_values(values: Mapping[str, Any]) -> bytes:
    """Returns a serialized tf.train.Example of values, each a float, int, text, bytes or a list of one of these."""
    kinds = {float: 'float_list', int: 'int64_list', str: 'bytes_list', bytes: 'bytes_list'}
    stored = {}
    for name, value in values.items():
        held = value if isinstance(value, list) else [value]
        kind = kinds[type(held[0])]
        stored[name] = (kind, [one.encode() if isinstance(one, str) else one for one in held])
    return example(**stored)


def file_of(records: Sequence[bytes], compression: str = '') -> bytes:
    """Returns the content of a TFRecord file."""
    with tempfile.NamedTemporaryFile() as file:
        with tf.io.TFRecordWriter(file.name, tf.io.TFRecordOptions(compression)) as writer:
            for record in records:
                writer.write(record)
        return file.read()
