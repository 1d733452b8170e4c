"""Trains, evaluates and serves seven kinds of model, so that what comes out can be compared between TensorFlows.

    python crossing.py DIRECTORY ACTION...

prints JSON: for each kind of model, which has a directory of its own below DIRECTORY, the result of each action.
Numbers are exact: the text of a float in JSON gives the same float back.

    train:STEP       trains to this global step, from where the directory's newest checkpoint is: the loss of each step
    checkpoint:STEP  the variables of a checkpoint, as digests
    evaluate:STEP    the metrics
    predict:STEP     the predictions for the first examples
    export:NAME      exports the newest checkpoint as a SavedModel, to a directory of this name beside the checkpoints
    serve:NAME       what a SavedModel answers for the first examples

`python crossing.py --record` writes what test_crossing.py reads, for the TensorFlow that runs it, beside this file.
"""

import hashlib
import itertools
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from estimator_trainer.compat import tf

tf1 = tf.compat.v1

# Training goes on after a multiple of BATCHES steps: there the input begins again, restarted or not.
BATCH, BATCHES, CLASSES, SIDE = 8, 5, 3, 6
PREDICTED = 4


def data():
    """Returns features and labels, the same for ever: NumPy promises not to change what RandomState gives."""
    state = np.random.RandomState(7)
    examples = BATCH * BATCHES
    x = state.uniform(-1, 1, (examples, SIDE * SIDE)).astype(np.float32)
    words = np.array([[b'w%d' % word] for word in state.randint(0, 9, examples)])
    labels = (np.abs(x[:, :3]).argmax(axis=1) + (words[:, 0] == b'w0')) % CLASSES
    return {'x': x, 'word': words}, labels.astype(np.int64).reshape(-1, 1)


def input_fn(repeat=False, only_x=False):
    # Called in each graph, before the model: Estimator seeds the graph, not NumPy, and not what Keras initialises with.
    seed()
    features, labels = data()
    if only_x:
        del features['word']
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    return (dataset.repeat() if repeat else dataset).batch(BATCH)


def seed():
    random.seed(1)
    np.random.seed(1)
    tf.keras.utils.set_random_seed(1)


def dense(features, training):
    hidden = tf1.layers.dense(features['x'], 8, activation=tf.nn.relu)
    hidden = tf1.layers.dropout(hidden, 0.2, training=training)
    return tf1.layers.dense(hidden, CLASSES), tf1.train.AdamOptimizer(0.01)


def conv(features, training):
    images = tf.reshape(features['x'], [-1, SIDE, SIDE, 1])
    hidden = tf1.layers.conv2d(images, 4, 3, padding='same', use_bias=False)
    hidden = tf.nn.relu(tf1.layers.batch_normalization(hidden, training=training))
    hidden = tf1.layers.flatten(tf1.layers.max_pooling2d(hidden, 2, 2))
    return tf1.layers.dense(hidden, CLASSES), tf1.train.MomentumOptimizer(0.05, 0.9)


def columns():
    words = tf.feature_column.categorical_column_with_hash_bucket('word', 20)
    x = tf.feature_column.numeric_column('x', [SIDE * SIDE])
    return [x, tf.feature_column.embedding_column(words, 4)]


def embedding(features, training):
    hidden = tf1.layers.dense(tf1.feature_column.input_layer(features, columns()), 8, activation=tf.nn.tanh)
    return tf1.layers.dense(hidden, CLASSES), tf1.train.AdagradOptimizer(0.1)


def lstm(features, training):
    sequences = tf.reshape(features['x'], [-1, SIDE, SIDE])
    outputs, _ = tf1.nn.dynamic_rnn(tf1.nn.rnn_cell.LSTMCell(5), sequences, dtype=tf.float32)
    return tf1.layers.dense(outputs[:, -1], CLASSES), tf1.train.RMSPropOptimizer(0.01)


def model_fn(features, labels, mode, params):
    network = {model.__name__: model for model in (dense, conv, embedding, lstm)}[params['network']]
    logits, optimizer = network(features, mode == tf.estimator.ModeKeys.TRAIN)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'probabilities': tf.nn.softmax(logits)})
    loss = tf1.losses.sparse_softmax_cross_entropy(labels[:, 0], logits)
    with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
    accuracy = tf1.metrics.accuracy(labels[:, 0], tf.argmax(logits, 1))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={'accuracy': accuracy})


def custom(network):
    return lambda config: tf.estimator.Estimator(model_fn, config=config, params={'network': network})


def canned_v1(config):
    x, words = columns()
    # Two optimizers with slots: FTRL and Adagrad.
    return tf1.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[words.categorical_column],
        dnn_feature_columns=[x, words],
        dnn_hidden_units=[8],
        n_classes=CLASSES,
        config=config,
    )


def canned_v2(config):
    return tf.estimator.DNNClassifier(
        [8], columns(), n_classes=CLASSES, optimizer='Adam', dropout=0.2, batch_norm=True, config=config
    )


def keras(config):
    seed()
    layers = tf.keras.layers
    x = layers.Input([SIDE * SIDE], name='x')
    hidden = layers.LSTM(5, name='lstm')(layers.Reshape([SIDE, SIDE], name='sequences')(x))
    # No bias: before batch normalisation its gradient is rounding errors only, which Adam makes steps of full size.
    hidden = layers.Dense(8, use_bias=False, name='hidden')(hidden)
    hidden = layers.BatchNormalization(name='norm')(hidden)
    hidden = layers.Dropout(0.2, name='dropout')(hidden)
    model = tf.keras.Model(x, layers.Dense(CLASSES, activation='softmax', name='probabilities')(hidden), name='keras')
    model.compile('adam', 'sparse_categorical_crossentropy', ['accuracy'])
    return tf.keras.estimator.model_to_estimator(model, config=config)


KINDS = {
    **{network: custom(network) for network in ('dense', 'conv', 'embedding', 'lstm')},
    'canned_v1': canned_v1,
    'canned_v2': canned_v2,
    'keras': keras,
}


class Losses(tf1.train.SessionRunHook):
    """Keeps the loss of each step."""

    def __init__(self):
        self.values = []

    def begin(self):
        self._loss = tf1.get_collection(tf1.GraphKeys.LOSSES)[-1]  # the one that Estimator reports

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


class Model:
    """What the actions do to one kind of model in one directory."""

    def __init__(self, kind, directory):
        self._kind, self._directory = kind, directory
        # One thread: a sum's order, and so its last bits, may depend on their number.
        session_config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        config = tf.estimator.RunConfig(str(directory), tf_random_seed=1, session_config=session_config)
        self._estimator = KINDS[kind](config)

    def _input_fn(self, repeat=False):
        return lambda: input_fn(repeat, self._kind == 'keras')

    def _path(self, step):
        return str(self._directory / f'model.ckpt-{step}')

    def train(self, step):
        losses = Losses()
        self._estimator.train(self._input_fn(repeat=True), hooks=[losses], max_steps=int(step))
        return losses.values

    def checkpoint(self, step):
        reader = tf.train.load_checkpoint(self._path(step))
        names = sorted(set(reader.get_variable_to_shape_map()) - {'_CHECKPOINTABLE_OBJECT_GRAPH'})
        return {name: digest(reader.get_tensor(name)) for name in names}

    def evaluate(self, step):
        metrics = self._estimator.evaluate(self._input_fn(), checkpoint_path=self._path(step))
        return {name: float(value) for name, value in sorted(metrics.items())}

    def predict(self, step):
        rows = self._estimator.predict(self._input_fn(), checkpoint_path=self._path(step))
        return [row['probabilities'].tolist() for row in itertools.islice(rows, PREDICTED)]

    def export(self, name):
        features, _ = data()
        spec = {
            key: tf.io.FixedLenFeature(value.shape[1:], tf.string if key == 'word' else tf.float32)
            for key, value in features.items()
            if key == 'x' or self._kind != 'keras'
        }
        receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
        made = self._estimator.export_saved_model(str(self._directory / 'made'), receiver)
        Path(made.decode()).rename(self._directory / name)

    def serve(self, name):
        features, _ = data()
        examples = [
            tf.train.Example(
                features=tf.train.Features(
                    feature={
                        'x': tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                        'word': tf.train.Feature(bytes_list=tf.train.BytesList(value=word)),
                    }
                )
            ).SerializeToString()
            for x, word in zip(features['x'][:PREDICTED], features['word'], strict=False)
        ]
        signatures = tf.saved_model.load(str(self._directory / name)).signatures
        signature = signatures['predict' if 'predict' in signatures else 'serving_default']
        return signature(examples=tf.constant(examples))['probabilities'].numpy().tolist()


def digest(value):
    """Returns what a value has to be, bit for bit; for an integer the value itself."""
    if value.shape == () and value.dtype.kind == 'i':
        return int(value)
    return f'{value.dtype} {list(value.shape)} {hashlib.sha256(value.tobytes()).hexdigest()[:16]}'


def run(kind, directory, actions):
    """Returns the results of the actions, those that have one."""
    model = Model(kind, Path(directory) / kind)
    results = {}
    for action in actions:
        verb, _, argument = action.partition(':')
        results[action] = getattr(model, verb)(argument)
    return {action: result for action, result in results.items() if result is not None}


# What is recorded; between the two trainings the directory is archived.
RECORDED = (['train:5', 'checkpoint:5', 'evaluate:5', 'predict:5', 'export:first', 'serve:first'], ['train:10'])
ARCHIVED = ('checkpoint', 'model.ckpt-5.[di]*', 'first')
NUMBERS = Path(__file__).with_name('crossing_numbers.json')


def archive(version):
    """Returns the file with the checkpoints and SavedModels that a TensorFlow has written."""
    return Path(__file__).with_name(f'crossing_{version}.tar.xz')


def record():
    """Writes the numbers, checkpoints and SavedModels of this TensorFlow."""
    numbers = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    version = '.'.join(tf.__version__.split('.')[:2])
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as kept:
        results = {kind: run(kind, made, RECORDED[0]) for kind in KINDS}
        for kind in KINDS:
            (Path(kept) / kind).mkdir()
            for pattern in ARCHIVED:
                for path in (Path(made) / kind).glob(pattern):
                    (shutil.copytree if path.is_dir() else shutil.copy)(path, Path(kept) / kind / path.name)
            (Path(kept) / kind / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-5"\n')
        shutil.make_archive(str(archive(version)).removesuffix('.tar.xz'), 'xztar', kept)
        numbers[version] = {kind: results[kind] | run(kind, made, RECORDED[1]) for kind in KINDS}
    NUMBERS.write_text(lines(numbers, levels=3) + '\n')


def lines(value, levels):
    """Returns JSON with a line for each value so many levels down."""
    if not levels:
        return json.dumps(value)
    return '{\n' + ',\n'.join(f'{json.dumps(key)}: {lines(one, levels - 1)}' for key, one in value.items()) + '\n}'


def main(arguments):
    if arguments == ['--record']:
        record()
    else:
        print(json.dumps({kind: run(kind, arguments[0], arguments[1:]) for kind in KINDS}))


if __name__ == '__main__':
    main(sys.argv[1:])
