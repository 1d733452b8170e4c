"""Calls a model_fn in a graph, a session or a program of its own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from estimator_trainer.compat import tf


def estimator(model_fn, model_dir, seed=1, **arguments):
    """Returns an Estimator of `model_fn` with `arguments` bound."""

    def bound_model_fn(features, labels, mode):
        return model_fn(features, labels, mode, **arguments)

    return tf.estimator.Estimator(bound_model_fn, str(model_dir), tf.estimator.RunConfig(tf_random_seed=seed))


def input_fn(features, labels=None, repeat=False):
    """Returns an input_fn that gives all examples as one batch."""
    features = {name: np.asarray(values, np.float32) for name, values in features.items()}
    example = features if labels is None else (features, np.asarray(labels, np.int32))

    def input_fn():
        data = tf.data.Dataset.from_tensors(example)
        return data.repeat() if repeat else data

    return input_fn


def variables(estimator):
    """Returns the variables of the last checkpoint but the step, name to array."""
    names = set(estimator.get_variable_names()) - {'global_step'}
    return {name: estimator.get_variable_value(name) for name in names}


def run(model_fn, features, labels=None, mode='infer', values=None, fetch=lambda spec: spec.predictions, **arguments):
    """Returns what `fetch` picks from the spec of one call, with the variables at `values` (name to array)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        features = {name: tf.constant(values, tf.float32) for name, values in features.items()}
        spec = model_fn(features, None if labels is None else tf.constant(labels), mode, **arguments)
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.local_variables_initializer()])
        for variable in tf.compat.v1.global_variables():
            if variable.op.name in (values or {}):
                variable.load(values[variable.op.name], session)
        return session.run(fetch(spec))


def assert_mirrored_is_one_device(model, tmp_path):
    """Asserts that the program `mirrored` finds two replicas to train as one device does."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join([*filter(None, [os.environ.get('PYTHONPATH')]), root])}
    command = [sys.executable, '-m', 'tests.model_fns.mirrored', model, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout.endswith('equal\n'), done.stderr[-4000:]
