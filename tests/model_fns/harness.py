"""Calls a model_fn in a graph, a session or a program of its own."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import gin
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
        features = tensors(features)
        spec = model_fn(features, None if labels is None else tf.constant(labels), mode, **arguments)
        initialise(session, values)
        return session.run(fetch(spec))


def tensors(features):
    """Returns the features as tensors; numbers with a fraction are float32 unless they are of NumPy."""
    return {
        name: tf.constant(values, None if isinstance(values, np.ndarray) or not _fractions(values) else tf.float32)
        for name, values in features.items()
    }


def _fractions(values):
    return np.asarray(values).dtype.kind == 'f'


def initialise(session, values=None):
    """Initialises variables and tables, the variables in `values` (name to array) with what is there."""
    v1 = tf.compat.v1
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer(), v1.tables_initializer()])
    for variable in v1.global_variables():
        if variable.op.name in (values or {}):
            variable.load(values[variable.op.name], session)


def trained(model_fn, features, labels, steps=1, values=None, **arguments):
    """Returns the variables, name to array, before and after so many steps with one batch."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        tf.compat.v1.train.get_or_create_global_step()
        spec = model_fn(tensors(features), tf.constant(labels), 'train', **arguments)
        initialise(session, values)
        variables = {variable.op.name: variable for variable in tf.compat.v1.global_variables()}
        before = session.run(variables)
        for _ in range(steps):
            session.run(spec.train_op)
        return before, session.run(variables)


def measured(model_fn, batches, **arguments):
    """Returns the metrics of an evaluation, name to number, over batches of (features, labels)."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        types = tf.nest.map_structure(lambda it: tf.as_dtype(np.asarray(it).dtype), batches[0])
        fed = tf.nest.map_structure(lambda it: tf.compat.v1.placeholder(it, [None]), types)
        spec = model_fn(*fed, 'eval', **arguments)
        initialise(session)
        updates = [update for _, update in spec.eval_metric_ops.values()]
        for batch in batches:
            feed = dict(zip(tf.nest.flatten(fed), tf.nest.flatten(batch), strict=True))
            session.run(updates, feed)
        return session.run({name: value for name, (value, _) in spec.eval_metric_ops.items()})


@contextlib.contextmanager
def bound(*statements):
    """Binds gin statements for the block; before and after there are none."""
    gin.clear_config()
    gin.parse_config('\n'.join(statements))
    try:
        yield
    finally:
        gin.clear_config()


def run_mirrored(models, directory):
    """Returns what the program `mirrored` says of models, name to a line, and all that it wrote to stderr."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join([*filter(None, [os.environ.get('PYTHONPATH')]), root])}
    command = [sys.executable, '-m', 'tests.model_fns.mirrored', str(directory), *models]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=550, check=False)
    return dict(line.split(': ', 1) for line in done.stdout.splitlines()), done.stderr
