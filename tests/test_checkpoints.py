"""Checkpoints: which one is meant, what is in it, and whether it fits a model."""

import pytest

from estimator_trainer import checkpoints
from estimator_trainer.checkpoints import Variable
from estimator_trainer.compat import tf
from estimator_trainer.errors import TrainerError, UserError

v1 = tf.compat.v1


@pytest.fixture(scope='module')
def model_dir(tmp_path_factory):
    """Two checkpoints, of the steps 10 and 20."""
    path = tmp_path_factory.mktemp('checkpoints')
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.create_global_step()
        v1.get_variable('w', [3, 2])
        v1.get_variable('parts', [10, 3], partitioner=tf.compat.v1.fixed_size_partitioner(4))
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        for number in (10, 20):
            session.run(step.assign(number))
            saver.save(session, str(path / 'model.ckpt'), step)
    return path


@pytest.mark.parametrize(
    ('given', 'want_step'),
    [
        ('10', 10),
        ('model.ckpt-10', 10),
        ('{}/model.ckpt-10', 10),
        ('{}/model.ckpt-20.index', 20),
        ('{}/model.ckpt-20.data-00000-of-00001', 20),
        ('{}', 20),
    ],
)
def test_find(model_dir, given, want_step):
    assert checkpoints.step_of(checkpoints.find(given.format(model_dir), str(model_dir), 'flag')) == want_step


@pytest.mark.parametrize(
    ('given', 'want_text'),
    [
        ('30', "flag: no checkpoint '30', neither as given nor in"),
        ('model.ckpt-2', "did you mean 'model.ckpt-20'"),
        ('/nowhere', 'has model.ckpt-10, model.ckpt-20'),
    ],
)
def test_a_checkpoint_that_is_not_there(model_dir, given, want_text):
    with pytest.raises(UserError, match=want_text):
        checkpoints.find(given, str(model_dir), 'flag')


def test_newest(model_dir, tmp_path):
    assert checkpoints.newest(str(model_dir)) == str(model_dir / 'model.ckpt-20')
    assert checkpoints.newest(str(tmp_path)) is None
    (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-7"')
    with pytest.raises(TrainerError, match='names no checkpoint that is there'):
        checkpoints.newest(str(tmp_path))


def test_variables_of():
    graph = tf.Graph()
    with graph.as_default():
        v1.train.create_global_step()
        v1.get_variable('parts', [10, 3], partitioner=tf.compat.v1.fixed_size_partitioner(4))
        v1.get_variable('ref', [2], use_resource=False, trainable=False)
        v1.get_local_variable('local', [2])
        v1.get_variable('open', initializer=lambda: tf.zeros([3]), validate_shape=False)
    found = checkpoints.variables_of(graph)
    assert found[:3] == [
        Variable('global_step', (), 'int64', False),
        Variable('parts', (10, 3), 'float32', True, 4),
        Variable('ref', (2,), 'float32', False),
    ]
    assert [variable.name for variable in found[3:]] == ['open']
    assert [variable.size for variable in found[:3]] == [1, 30, 2]
    assert Variable('v', (3, None), 'float32', True).size is None


MODELS = {
    'same': ([('w', (3, 2), 'float32'), ('parts', (10, 3), 'float32')], [], [], []),
    'smaller': ([('w', (3, 2), 'float32')], [], ['parts'], []),
    'larger': ([('w', (3, 2), 'float32'), ('parts', (10, 3), 'float32'), ('v', (), 'int32')], ['v'], [], []),
    'of unknown shape': ([('w', (None, 2), 'float32'), ('parts', (10, 3), 'float32')], [], [], []),
    'of another shape': (
        [('w', (2, 3), 'float32'), ('parts', (10, 3), 'float32')],
        [],
        [],
        ['w: float32[3, 2] in the checkpoint, float32[2, 3] in the model'],
    ),
    'of another dtype': (
        [('w', (3, 2), 'float64'), ('parts', (10, 3), 'float32')],
        [],
        [],
        ['w: float32[3, 2] in the checkpoint, float64[3, 2] in the model'],
    ),
}


@pytest.mark.parametrize('name', MODELS)
def test_compare(model_dir, name):
    variables, want_missing, want_unexpected, want_differing = MODELS[name]
    variables = [Variable(*fields, True) for fields in [('global_step', (), 'int64'), *variables]]
    found = checkpoints.compare(str(model_dir / 'model.ckpt-10'), variables)
    assert (found.missing, found.unexpected, found.differing) == (want_missing, want_unexpected, want_differing)
    assert found.fits == (name in ('same', 'smaller', 'of unknown shape'))


def test_a_misfit_is_told_in_short_lists(model_dir):
    variables = [Variable(f'v{number}', (), 'float32', True) for number in range(7)]
    found = checkpoints.compare(str(model_dir / 'model.ckpt-10'), variables)
    assert checkpoints.misfit('C', found) == (
        'C is not a checkpoint of this model: only in the model: v0, v1, v2, v3, v4 and 2 more; '
        'only in the checkpoint: global_step, parts, w'
    )


def test_a_checkpoint_of_objects_is_not_compared(tmp_path):
    tf.train.Checkpoint(v=tf.Variable(1.0)).write(str(tmp_path / 'c'))
    assert checkpoints.compare(str(tmp_path / 'c'), [Variable('w', (), 'float32', True)]) is None


def test_a_broken_checkpoint_is_told_in_one_line(tmp_path):
    (tmp_path / 'c.index').write_bytes(b'x' * 200)
    for function in (checkpoints.step_of, lambda path: checkpoints.compare(path, [])):
        with pytest.raises(TrainerError, match=r'cannot read .*c: [^\n]+$'):
            function(str(tmp_path / 'c'))
