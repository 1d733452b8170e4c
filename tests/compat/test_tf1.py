"""A TensorFlow 1 program runs, and what it used of tf.contrib does what it did."""

import builtins
import json
import pkgutil
import sys
from types import ModuleType

import pytest

from estimator_trainer.compat import contrib, moved, views
from estimator_trainer.errors import UserError
from tests.compat import fresh

pytestmark = [pytest.mark.xdist_group('compat_tf1'), pytest.mark.once('newest')]


def test_a_program_of_2018(tmp_path):
    command = ['-m', 'estimator_trainer.compat', '--tf1', 'programs/run_classifier.py']
    out = fresh.last_line(fresh.start(*command, '--do_train', f'--output_dir={tmp_path}'))
    found = json.loads(out)
    # On TensorFlow 2.15 and 2.21, which differ in the last digits.
    assert found.pop('eval_loss') == pytest.approx(0.0021787, rel=1e-3)
    assert found == {
        'global_step': 20,
        'predictions': 64,
        'exported': ['saved_model.pb', 'variables'],
        'layer_norms': ['bert/LayerNorm/gamma', 'bert/layer_0/LayerNorm/gamma'],
        'learned': 16,
    }


def test_the_v1_api_is_seen():
    code = """
import sys
from estimator_trainer.compat import tf1
tf1.install()
scope = {'__name__': 'program'}
exec('''
import tensorflow as tf, tensorflow.compat.v2 as tf2
import tensorflow.keras.layers as layers, tensorflow.core.framework.graph_pb2 as graph_pb2
from tensorflow import keras, gfile, estimator
import tensorflow.contrib.slim as slim
from tensorflow.contrib.learn.python import learn
import sys, tensorflow.compat.v1 as named
from tensorflow.compat.v1 import estimator as named_estimator
x = tf.get_variable('x', [2])
found = [
    tf.executing_eagerly(), type(x).__name__, type(x.shape[0]).__name__, tf.placeholder(tf.int32).shape.ndims,
    tf.Session is tf2.compat.v1.Session, keras.layers.Dense is layers.Dense is tf.keras.layers.Dense,
    estimator.Estimator is tf.estimator.Estimator, hasattr(tf.estimator, 'inputs'), tf.GIT_VERSION != '',
    graph_pb2.GraphDef is tf.GraphDef, repr(slim.nets), repr(learn), repr(tf.contrib.seq2seq),
    len(list(tf.nn.rnn_cell.BasicLSTMCell(3).state_size)),
    named.estimator.Estimator is named_estimator.Estimator is tf.compat.v1.estimator.Estimator is estimator.Estimator,
    tf2.estimator.RunConfig is tf.compat.v2.estimator.RunConfig, 'tensorflow.compat.v1.compat.v1' in sys.modules,
]
''', scope)
tensorflow = sys.modules['tensorflow']
print(scope['found'], hasattr(tensorflow, 'contrib'), hasattr(tensorflow, 'placeholder'))
"""
    assert fresh.last_line(fresh.start('-W', 'ignore', '-c', code)) == (
        "[False, 'RefVariable', 'Dimension', None, True, True, True, True, True, True, 'tf.contrib.slim.nets', "
        "'tf.contrib.learn.python.learn', 'tf.contrib.seq2seq', 2, True, True, False] False False"
    )


@pytest.fixture
def run():
    """Returns a function that runs statements as a program that has tf.contrib."""
    there = views.Views(moved.MOVED | contrib.NAMES, {}, stand_ins={contrib.ROOT: contrib.StandIn})

    def execute(statements):
        scope = {'__name__': 'program', '__builtins__': {**vars(builtins), '__import__': there._import_for}}
        exec(statements, scope)
        return scope

    return execute


@pytest.mark.parametrize('name', [name for name in contrib.NAMES if name != 'tensorflow.contrib.slim'])
def test_each_name_of_contrib_is_found(run, name):
    module, _, last = name.rpartition('.')
    found = run(f'import tensorflow as tf; from {module} import {last} as found')['found']
    assert found is pkgutil.resolve_name(contrib.NAMES[name])


@pytest.mark.parametrize(
    'statements, want_name, want_instead',
    [
        ('from tensorflow.contrib import slim; slim.conv2d(1)', 'slim.conv2d', 'pip install tf-slim'),
        ('import tensorflow.contrib.slim.nets as n; n.vgg.vgg_16(1)', 'slim.nets.vgg.vgg_16', 'pip install tf-slim'),
        ('import tensorflow as tf; tf.contrib.ffmpeg.decode_audio()', 'ffmpeg.decode_audio', 'write what'),
        ('import tensorflow as tf; tf.contrib.layers.conv2d(1)', 'layers.conv2d', 'tf.layers'),
        ('from tensorflow.contrib.rnn import Cell\nclass A(Cell): pass', 'rnn.Cell', 'tf.nn.rnn_cell'),
        ('from tensorflow.contrib import crf\nfor _ in crf.x: pass', 'crf.x', 'tensorflow_addons'),
    ],
)
def test_any_other_name_fails_at_use(run, statements, want_name, want_instead):
    with pytest.raises(UserError) as error:
        run(statements)
    assert str(error.value).startswith(f'tf.contrib.{want_name} is gone: TensorFlow 1.15 was the last with it; ')
    assert want_instead in str(error.value) and '\n' not in str(error.value)


@pytest.mark.parametrize('installed', [ModuleType('tf_slim'), None])
def test_slim_is_tf_slim(run, monkeypatch, installed):
    monkeypatch.setitem(sys.modules, 'tf_slim', installed)
    slim = run('import tensorflow.contrib.slim as slim')['slim']
    assert slim is installed or (installed is None and repr(slim) == 'tf.contrib.slim')


def test_a_stand_in_is_only_a_name():
    stand_in = contrib.StandIn('tensorflow.contrib.crf.x')
    assert not isinstance(3, stand_in) and not hasattr(stand_in, '__wrapped__')
