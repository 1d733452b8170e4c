"""Which checkpoints the exporters export, over evaluations and restarts, and which exports they keep."""

import functools
import json
import logging
import os

import gin
import numpy as np
import pytest

from estimator_trainer import exporters, serving
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError

pytestmark = pytest.mark.once('oldest')

v1 = tf.compat.v1
RECEIVER_FN = serving.receiver_fn({'x': 'float32'}, None)


def model_fn(features, labels, mode, params):
    """Adds to its weight in each step; the loss is the weight's distance from 3."""
    weight = v1.get_variable('weight', initializer=0.0)
    loss = tf.abs(weight - 3.0)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'y': weight * features['x']})
    with tf.control_dependencies([v1.assign_add(v1.train.get_global_step(), 1)]):
        train_op = weight.assign_add(params['step'])
    metrics = {'weight': v1.metrics.mean(weight), 'vector': v1.metrics.mean_tensor(tf.stack([weight, weight]))}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op.op, eval_metric_ops=metrics)


def input_fn():
    return tf.data.Dataset.from_tensors(({'x': tf.ones([1])}, tf.ones([1]))).repeat(20)


@pytest.fixture
def run(tmp_path):
    """Trains in a process of its own, as it were: trains, evaluates and exports for each number of steps."""

    def run(make, steps, step=1.0, final=False, name='export'):
        estimator = tf.estimator.Estimator(model_fn, str(tmp_path / 'model'), params={'step': step})
        exporter = make()
        exported = []
        for last, number in enumerate(steps, 1 - len(steps)):
            estimator.train(input_fn, steps=number)
            result = estimator.evaluate(input_fn, steps=1)
            path = exporter.export(
                estimator, str(tmp_path / name), estimator.latest_checkpoint(), result, final and last == 0
            )
            exported.append(weight(path) if path else None)
        return exported

    return run


def weight(path):
    """Returns the weight that an export multiplies with."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ['serve'], path)
        return float(session.run(v1.global_variables()[-1]))


def kept(path):
    return sorted(name for name in os.listdir(path) if name.isdigit())


def state_of(path):
    return path.with_name(f'{path.name}.json')


@pytest.fixture
def clock(monkeypatch):
    """Each export a second later than the last: tf.estimator names them by the second, and waits for the next."""
    now = iter(range(1_500_000_000, 1_600_000_000))
    monkeypatch.setattr('time.time', lambda: next(now))


def test_latest_exports_each_and_keeps_the_newest(run, tmp_path, clock):
    make = functools.partial(exporters.LatestExporter, serving_input_receiver_fn=RECEIVER_FN, exports_to_keep=2)
    assert run(make, [1, 1, 1]) == [1.0, 2.0, 3.0]
    assert [weight(str(tmp_path / 'export' / name)) for name in kept(tmp_path / 'export')] == [2.0, 3.0]
    assert run(make, [1], name='export') == [4.0]
    assert len(kept(tmp_path / 'export')) == 2


def test_final_exports_at_the_end_only(run, tmp_path, clock):
    make = functools.partial(exporters.FinalExporter, serving_input_receiver_fn=RECEIVER_FN)
    assert run(make, [1, 1]) == [None, None]
    assert run(make, [1, 1], final=True) == [None, 4.0]
    assert run(make, [1], final=True) == [5.0]
    assert len(kept(tmp_path / 'export')) == 2


def higher(best_eval_result, current_eval_result):
    return current_eval_result['weight'] > best_eval_result['weight']


@pytest.mark.parametrize(
    ('arguments', 'want', 'want_restarted'),
    [
        # Weights 1, 2, 4 then 4.5, 3.5, 3: the loss is 2, 1, 1 then 1.5, 0.5, 0.
        ({}, [1.0, 2.0, None], [None, 3.5, 3.0]),
        ({'metric': 'weight', 'higher_is_better': True}, [1.0, 2.0, 4.0], [4.5, None, None]),
        ({'metric': 'weight'}, [1.0, None, None], [None, None, None]),
        ({'compare_fn': higher}, [1.0, 2.0, 4.0], [4.5, None, None]),
        ({'compare_fn': higher, 'event_file_pattern': 'eval/*.tfevents.*'}, [1.0, 2.0, 4.0], [4.5, None, None]),
    ],
)
def test_best_exports_what_is_better_than_all_before_a_restart_too(run, clock, arguments, want, want_restarted):
    make = functools.partial(exporters.BestExporter, serving_input_receiver_fn=RECEIVER_FN, **arguments)
    assert run(make, [1, 1, 2]) == want
    assert run(make, [1], step=0.5) + run(make, [2, 1], step=-0.5) == want_restarted


class Estimator:
    """Stands for tf.estimator's: exports nothing but a directory."""

    exports = 0

    def export_saved_model(self, base, receiver_fn, assets_extra=None, as_text=False, checkpoint_path=None):
        Estimator.exports += 1
        path = os.path.join(base, str(1_500_000_000 + Estimator.exports))
        os.makedirs(path)
        return path.encode()


def best(base, *losses, **arguments):
    """Returns for each loss whether it is exported by a new exporter."""
    exported = []
    for loss in losses:
        exporter = exporters.BestExporter(serving_input_receiver_fn=RECEIVER_FN, **arguments)
        exported.append(exporter.export(Estimator(), str(base), 'ckpt', {'loss': np.float32(loss)}, False) is not None)
    return exported


@pytest.mark.parametrize(
    ('losses', 'want'),
    [
        ([np.nan, 2.0, np.nan, 1.0], [False, True, False, True]),
        ([np.inf, 2.0, -np.inf, 2.0], [False, True, False, False]),
        ([0.1, 0.1, np.nextafter(np.float32(0.1), np.float32(0))], [True, False, True]),
    ],
)
def test_best_is_a_finite_number(tmp_path, caplog, losses, want):
    assert best(tmp_path, *losses) == want
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if 'not exported as the best' in line]) == sum(~np.isfinite(losses))


@pytest.mark.parametrize(
    ('text', 'want_warnings'),
    [('', 1), ('{"loss": ', 1), ('[1]', 1), ('{"accuracy": 1.0}', 0), ('{"loss": null}', 0), ('{"loss": NaN}', 0)],
)
def test_a_state_that_tells_no_best_counts_as_nothing_exported(tmp_path, caplog, text, want_warnings):
    state_of(tmp_path).write_text(text)
    assert best(tmp_path, 5.0, 6.0) == [True, False]
    assert json.loads(state_of(tmp_path).read_text()) == {'loss': 5.0}
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * want_warnings


def test_best_is_not_remembered_when_its_export_failed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Estimator, 'export_saved_model', lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            best(tmp_path, 1.0)
    assert best(tmp_path, 2.0) == [True]


def test_metrics_that_are_no_numbers_are_not_remembered(tmp_path):
    exporter = exporters.BestExporter(serving_input_receiver_fn=RECEIVER_FN)
    result = {'loss': np.float32(1), 'vector': np.ones(2), 'image': b'png', 'global_step': np.int64(3)}
    exporter.export(Estimator(), str(tmp_path), 'ckpt', result, False)
    assert json.loads(state_of(tmp_path).read_text()) == {'loss': 1.0, 'vector': [1.0, 1.0], 'global_step': 3}


@pytest.mark.parametrize(
    ('metric', 'want'),
    [
        ('los', "found 'los'; there are 'image', 'loss', 'vector'; did you mean 'loss'"),
        ('vector', "found 'vector'"),
        ('image', "found 'image'"),
    ],
)
def test_best_by_a_metric_that_is_not_there(tmp_path, metric, want):
    exporter = exporters.BestExporter(serving_input_receiver_fn=RECEIVER_FN, metric=metric)
    result = {'loss': np.float32(1), 'vector': np.ones(2), 'image': b'png'}
    with pytest.raises(UserError, match=f'^BestExporter.metric: expected a number .*{want}'):
        exporter.export(Estimator(), str(tmp_path), 'ckpt', result, False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ('kind', 'arguments', 'want'),
    [
        ('LatestExporter', {'name': ''}, "LatestExporter.name: expected the name of a directory, found ''"),
        ('FinalExporter', {'name': 3}, 'FinalExporter.name: expected the name of a directory, found 3'),
        ('LatestExporter', {'exports_to_keep': 0}, 'LatestExporter.exports_to_keep: expected .*; found 0'),
        ('BestExporter', {'exports_to_keep': '5'}, "BestExporter.exports_to_keep: expected .*; found '5'"),
        ('BestExporter', {'compare_fn': lambda best, current: True}, 'BestExporter.compare_fn: expected a function of'),
        ('BestExporter', {'compare_fn': higher, 'metric': 'auc'}, 'BestExporter: expected compare_fn, or metric and'),
    ],
)
def test_wrong_arguments(kind, arguments, want):
    with pytest.raises(UserError, match=f'^{want}'):
        getattr(exporters, kind)(**arguments)


@pytest.mark.parametrize('kind', ['LatestExporter', 'FinalExporter', 'BestExporter'])
def test_the_receiver_may_come_later(tmp_path, kind):
    exporter = getattr(exporters, kind)()
    assert isinstance(exporter, tf.estimator.Exporter)
    export = (Estimator(), str(tmp_path), 'ckpt', {'loss': 1.0}, True)
    with pytest.raises(UserError, match=f'^{kind}.serving_input_receiver_fn is not bound'):
        exporter.export(*export)
    exporter.serving_input_receiver_fn = RECEIVER_FN
    assert os.path.dirname(exporter.export(*export)) == str(tmp_path)


def test_bound_in_gin(clean_gin):
    kinds = (exporters.BestExporter, exporters.LatestExporter, exporters.FinalExporter)
    # Names that no other test asks for: gin never forgets one.
    best, latest, final = (gin.external_configurable(kind, f'{kind.__name__}OfATest') for kind in kinds)
    gin.parse_config("""
        BestExporterOfATest.metric = 'accuracy'
        BestExporterOfATest.higher_is_better = True
        small/LatestExporterOfATest.name = 'small'
    """)
    made = [best(), latest(), final()]
    with gin.config_scope('small'):
        made.append(latest())
    assert [exporter.name for exporter in made] == ['best', 'latest', 'final', 'small']
    with pytest.raises(UserError, match="found 'accuracy'; there are 'loss'"):
        made[0].export(Estimator(), '/nowhere', 'ckpt', {'loss': 1.0}, False)


def test_export_saved_model(run, tmp_path):
    run(exporters.FinalExporter, [2, 1])
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path / 'model'), params={'step': 1.0})
    path = exporters.export_saved_model(estimator, str(tmp_path / 'out'), RECEIVER_FN)
    assert (os.path.dirname(path), weight(path)) == (str(tmp_path / 'out'), 3.0)
    path = exporters.export_saved_model(
        estimator, str(tmp_path / 'two'), RECEIVER_FN, str(tmp_path / 'model/model.ckpt-2')
    )
    assert weight(path) == 2.0
