"""Early stopping: at the evaluation that gives the reason, at the same step each time, with one process or several."""

import json
import math

import gin
import pytest

from estimator_trainer import early_stopping, gin_config, registry
from estimator_trainer.compat import tf
from estimator_trainer.early_stopping import EarlyStopping
from estimator_trainer.errors import UserError
from tests.compat import fresh

pytestmark = pytest.mark.once('oldest')

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    """Its metrics at each step: `loss` 5 for ever, `fall` 1 / step, `rise` the step up to 10."""
    step = tf.cast(v1.train.get_global_step(), tf.float32)
    loss = 5.0 + 0.0 * v1.get_variable('w', []) * tf.reduce_mean(features)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    metrics = {'fall': v1.metrics.mean(1 / step), 'rise': v1.metrics.mean(tf.minimum(step, 10.0))}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def input_fn():
    return tf.data.Dataset.from_tensors([1.0, 2.0]).repeat()


class Evaluate(v1.train.CheckpointSaverListener):
    """Evaluates each checkpoint but the first and tells the hook, as the trainer does."""

    def __init__(self, estimator, hook):
        self._estimator, self._hook = estimator, hook
        self.steps, self.warnings = [], []
        self._first = True

    def after_save(self, session, global_step_value):
        first, self._first = self._first, False
        if not first:
            metrics = self._estimator.evaluate(input_fn, steps=1)
            self.steps.append(int(global_step_value))
            if isinstance(self._hook, EarlyStopping):
                self.warnings.append(self._hook.evaluated(metrics))


def train(model_dir, every, function, max_steps=60, **arguments):
    """Trains, and returns the last step and the listener."""
    estimator = make_estimator(model_dir, save_checkpoints_steps=every)
    hook = function(estimator, **arguments)
    listener = Evaluate(estimator, hook)
    estimator.train(input_fn, hooks=[hook], max_steps=max_steps, saving_listeners=[listener])
    return int(estimator.get_variable_value('global_step')), listener


def make_estimator(model_dir, **config):
    return tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(model_dir=str(model_dir), **config))


@pytest.mark.parametrize(
    ('every', 'name', 'arguments', 'want_step'),
    [
        (1, 'stop_if_no_decrease_hook', {'metric_name': 'loss', 'max_steps_without_decrease': 10}, 11),
        (5, 'stop_if_no_decrease_hook', {'metric_name': 'loss', 'max_steps_without_decrease': 10}, 15),
        (5, 'stop_if_no_decrease_hook', {'metric_name': 'loss', 'max_steps_without_decrease': 10, 'min_steps': 7}, 20),
        (5, 'stop_if_no_decrease_hook', {'metric_name': 'fall', 'max_steps_without_decrease': 10}, 25),
        (5, 'stop_if_no_increase_hook', {'metric_name': 'rise', 'max_steps_without_increase': 10}, 20),
        (5, 'stop_if_no_increase_hook', {'metric_name': 'fall', 'max_steps_without_increase': 10}, 15),
        (5, 'stop_if_higher_hook', {'metric_name': 'rise', 'threshold': 9}, 10),
        (5, 'stop_if_higher_hook', {'metric_name': 'rise', 'threshold': 0.5, 'min_steps': 12}, 15),
        (5, 'stop_if_lower_hook', {'metric_name': 'fall', 'threshold': 0.15}, 10),
        (5, 'stop_if_lower_hook', {'metric_name': 'loss', 'threshold': 5.0}, 25),
        (5, 'make_early_stopping_hook', {'should_stop_fn': lambda: True}, 5),
    ],
)
def test_the_step_at_which_training_stops(tmp_path, every, name, arguments, want_step):
    step, listener = train(tmp_path, every, getattr(early_stopping, name), 25, **arguments)
    assert step == want_step
    assert listener.steps == list(range(every, want_step + 1, every))
    assert set(listener.warnings) == {None}


def test_training_goes_on_from_any_checkpoint(tmp_path):
    def further(steps, **more):
        stop = early_stopping.stop_if_no_decrease_hook
        return train(tmp_path, 5, stop, metric_name='loss', max_steps_without_decrease=steps, **more)[0]

    make_estimator(tmp_path).train(input_fn, max_steps=3)  # without the hook
    assert further(10) == 18
    assert further(100, max_steps=40) == 40
    assert further(10) == 45  # what has been evaluated before counts, but not before there is something new
    assert not [name for name, _ in tf.train.list_variables(str(tmp_path)) if 'STOP' in name]


@pytest.mark.parametrize(
    ('metric_name', 'want_hint'),
    [('falls', "; did you mean 'fall'?"), ('auc', '; it has fall, global_step, loss, rise')],
)
def test_a_metric_that_is_not_there_is_told(tmp_path, metric_name, want_hint):
    step, listener = train(tmp_path, 5, early_stopping.stop_if_higher_hook, 10, metric_name=metric_name, threshold=-1.0)
    assert step == 10
    warning = f'stop_if_higher_hook.metric_name: the evaluation has no metric {metric_name!r}{want_hint}'
    assert listener.warnings == [warning] * 2


def test_evaluations_without_the_metric_do_not_count(tmp_path):
    with tf.Graph().as_default(), v1.summary.FileWriter(str(tmp_path / 'eval')) as writer:
        writer.add_summary(v1.Summary(value=[v1.Summary.Value(tag='other', simple_value=1.0)]), 1)
    with open(next((tmp_path / 'eval').iterdir()), 'ab') as file:
        file.write(b'half an event')
    step, _ = train(tmp_path, 5, early_stopping.stop_if_higher_hook, metric_name='rise', threshold=5.0)
    assert step == 10


@pytest.mark.parametrize(
    ('seconds', 'metric_name', 'want_step', 'want_text'),
    [
        (0.0, 'loss', 4, ''),
        (math.inf, 'loss', 8, ''),
        (0.0, 'lost', 8, "WARNING: stop_if_higher_hook.metric_name: the evaluation has no metric 'lost'"),
    ],
)
def test_what_another_process_evaluates_is_looked_at_from_time_to_time(
    tmp_path, monkeypatch, capsys, seconds, metric_name, want_step, want_text
):
    monkeypatch.setattr(early_stopping, '_SECONDS', seconds)
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn, max_steps=3)
    estimator.evaluate(input_fn, steps=1)
    hook = early_stopping.stop_if_higher_hook(estimator, metric_name, 1.0)
    estimator.train(input_fn, hooks=[hook], max_steps=8)
    assert estimator.get_variable_value('global_step') == want_step
    err = capsys.readouterr().err
    assert want_text in err
    assert err.count('WARNING: ') == bool(want_text)  # once, however often it looks


def test_another_directory(tmp_path):
    estimator = make_estimator(tmp_path / 'other')
    estimator.train(input_fn, max_steps=3)
    estimator.evaluate(input_fn, steps=1)
    stop = early_stopping.stop_if_higher_hook
    directory = str(tmp_path / 'other' / 'eval')
    step, listener = train(tmp_path, 5, stop, metric_name='loss', threshold=1.0, eval_dir=directory)
    assert (step, listener.warnings) == (5, [None])
    assert stop(estimator, 'not here', 1.0, eval_dir=directory).evaluated({}) is None


def test_the_hook_is_stocks_where_it_is_told_when_to_look(tmp_path):
    step, listener = train(
        tmp_path, 5, early_stopping.stop_if_higher_hook, metric_name='loss', threshold=1.0, run_every_steps=1
    )
    assert step in (5, 6)  # it may read global_step before the run has moved it
    assert not listener.warnings
    hook = early_stopping.make_early_stopping_hook(make_estimator(tmp_path), lambda: True, run_every_secs=1e9)
    assert not isinstance(hook, EarlyStopping)


def test_only_one_of_two_intervals_may_be_given(tmp_path):
    with pytest.raises(UserError, match=r'^stop_if_lower_hook: Only one of `run_every_secs` and `run_every_steps`'):
        early_stopping.stop_if_lower_hook(make_estimator(tmp_path), 'loss', 1.0, run_every_secs=1, run_every_steps=1)


def in_cluster(monkeypatch, model_dir, job):
    cluster = {'chief': ['a:1'], 'worker': ['b:1'], 'ps': ['c:1']}
    monkeypatch.setenv('TF_CONFIG', json.dumps({'cluster': cluster, 'task': {'type': job, 'index': 0}}))
    return early_stopping.make_early_stopping_hook(make_estimator(model_dir), lambda: True)


def test_the_chief_stops_the_workers(tmp_path, monkeypatch):
    chief, worker = (in_cluster(monkeypatch, tmp_path, job) for job in ('chief', 'worker'))
    assert isinstance(chief, EarlyStopping)
    assert not isinstance(worker, EarlyStopping)
    told = []

    class Look(v1.train.SessionRunHook):
        """Sees what a worker would in its next run; in the third, an evaluation follows."""

        def after_run(self, run_context, run_values):
            told.append(bool(run_context.session.run(worker.before_run(run_context).fetches)))
            if len(told) == 3:
                chief.evaluated({})

    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        with v1.train.MonitoredSession(hooks=[chief, worker, Look()]) as session:
            while not session.should_stop():
                session.run(step)
        # Not saved: who goes on from the checkpoint shall not stop again.
        assert [variable.op.name for variable in v1.global_variables()] == ['global_step']
        assert [variable.op.name for variable in v1.local_variables()] == ['signal_early_stopping/STOP']
    assert told == [False, False, False, True]


def test_types_are_those_of_the_annotations(clean_gin):
    config = gin_config.read([], ["stop_if_lower_hook.threshold = 'low'"], [])
    registry.register(config)
    gin_config.apply(config, {})
    with pytest.raises(UserError, match=r"threshold = 'low': expected a number, found a string"):
        gin_config.check_types(gin_config.bindings(config, {}))


def test_bound_in_gin(tmp_path, clean_gin):
    text = "stop_if_no_decrease_hook.metric_name = 'loss'\nstop_if_no_decrease_hook.max_steps_without_decrease = 5"
    config = gin_config.read([], [text], [])
    registry.register(config)
    gin_config.apply(config, {})
    assert train(tmp_path, 5, gin.get_configurable('stop_if_no_decrease_hook'))[0] == 10


# In a process of its own, for TensorFlow's devices cannot be divided once they have been used.
STRATEGIES = """
import json, sys
from estimator_trainer import early_stopping, gin_config, strategies
from estimator_trainer.compat import tf
from estimator_trainer.topology import Topology

strategies.set_up_devices('mirrored', gin_config.read([], [], []), Topology())
sys.path.insert(0, sys.argv[2])
from tests import test_early_stopping as tests

steps = {}
for name in ('one_device', 'central_storage', 'mirrored'):
    session_config = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={'CPU': 2})
    estimator = tests.make_estimator(
        f'{sys.argv[1]}/{name}', save_checkpoints_steps=5, train_distribute=strategies.make(name, Topology(), 'test'),
        session_config=session_config,
    )
    hook = early_stopping.stop_if_no_decrease_hook(estimator, 'loss', 5)
    listener = tests.Evaluate(estimator, hook)
    estimator.train(tests.input_fn, hooks=[hook], max_steps=30, saving_listeners=[listener])
    steps[name] = listener.steps
print(json.dumps(steps))
"""


def test_under_a_strategy(tmp_path, request):
    process = fresh.start('-c', STRATEGIES, str(tmp_path), str(request.config.rootpath), CUDA_VISIBLE_DEVICES='')
    want = {name: [5, 10] for name in ('one_device', 'central_storage', 'mirrored')}
    assert json.loads(fresh.last_line(process)) == want
