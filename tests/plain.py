"""Reads what runs have left in a process of its own, with TensorFlow alone: neither ours nor tf.estimator."""

import pathlib
import pickle
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from tests import program

_PROGRAM = """
import pickle, sys
import numpy as np
import tensorflow as tf

def variables(path):
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

def feature(value):
    values = np.ravel(value).tolist()
    if isinstance(values[0], str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode() for text in values]))
    if isinstance(values[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))

def examples(columns):
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    features = [{name: feature(value) for name, value in row.items()} for row in rows]
    return [tf.train.Example(features=tf.train.Features(feature=one)).SerializeToString() for one in features]

def answers(path, columns):
    model = tf.saved_model.load(path)
    result = {}
    for name, function in model.signatures.items():
        inputs = function.structured_input_signature[1]
        if set(inputs) <= {'examples', 'inputs'}:
            fed = {key: tf.constant(examples(columns)) for key in inputs}
        else:
            fed = {key: tf.constant(columns[key], spec.dtype) for key, spec in inputs.items()}
        result[name] = {key: value.numpy() for key, value in function(**fed).items()}
    return result

def events(path):
    found = {}
    for name in tf.io.gfile.glob(path + '/events.out.tfevents.*'):
        for event in tf.compat.v1.train.summary_iterator(name):
            for value in event.summary.value:
                if not value.HasField('tensor'):
                    continue
                found.setdefault(value.tag, []).append((event.step, tf.make_ndarray(value.tensor)))
    return found

def records(path):
    parsed = [tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(path)]
    return [
        {name: list(getattr(one, one.WhichOneof('kind')).value) for name, one in example.features.feature.items()}
        for example in parsed
    ]

with open(sys.argv[1], 'rb') as file:
    questions = pickle.load(file)
found = {name: globals()[kind](*arguments) for name, (kind, *arguments) in questions.items()}
assert not [name for name in sys.modules if name.split('.')[0] in ('estimator_trainer', 'tensorflow_estimator', 'gin')]
assert len(tf.config.list_logical_devices('CPU')) == 1
with open(sys.argv[1], 'wb') as file:
    pickle.dump(found, file)
"""


def read(questions: Mapping[str, tuple], cwd: pathlib.Path) -> dict[str, Any]:
    """Returns name -> what TensorFlow found.

    Args:
        questions: name -> one of
            ('variables', checkpoint): variable name -> array;
            ('answers', SavedModel, columns): signature -> output -> array, for feature name -> rows, which are fed as
                they are or as serialized tf.Example, whichever the signature takes;
            ('events', directory): tag -> [(step, array)] of what is no number in the event files;
            ('records', file): [feature name -> list] of a TFRecord file of tf.Example.
        cwd: current directory, from which paths may be relative.
    """
    file = cwd / 'questions.pickle'
    file.write_bytes(pickle.dumps(dict(questions)))
    process = subprocess.run(
        [sys.executable, '-c', _PROGRAM, str(file)],
        cwd=cwd,
        env=program.environment(TF_CPP_MIN_LOG_LEVEL='3', CUDA_VISIBLE_DEVICES=''),
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert process.returncode == 0, process.stderr[-4000:]
    return pickle.loads(file.read_bytes())
