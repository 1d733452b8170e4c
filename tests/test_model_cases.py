"""Cases of what users' functions do (issue 3): model_fn, input_fn, receivers, through the whole program."""

import re
import shutil

import numpy as np
import pytest

from estimator_trainer.compat import tf
from estimator_trainer.predictor import Predictor
from tests import program
from tests.conftest import MY_GIN, MY_MODEL
from tests.program import bind

pytestmark = pytest.mark.once('oldest')

MY = ['--gin_file=my.gin', '--import_module=case_module']
FINAL = 'experiment.exporters = [@FinalExporter()]'
RETURNING = 'experiment.train_input_fn = @returning_input_fn'
OUTPUTS = 'experiment.model_fn = @outputs_model_fn'

# B65: name -> (statements, the params that the function is given)
PARAMS = {
    'asked for': (['experiment.model_fn = @params_model_fn'], {}),
    'with a default': (['experiment.model_fn = @default_params_model_fn'], {}),
    'bound': (['experiment.model_fn = @params_model_fn', 'experiment.params = {"rate": 0.5}'], {'rate': 0.5}),
}

# B66: name -> (strategy, kind of layer, attach_update_ops)
NORMS = {
    'v1, forgotten': ('none', 'v1', False),
    'Keras, forgotten': ('none', 'keras', False),
    'v1': ('none', 'v1', True),
    'Keras': ('none', 'keras', True),
    'v1, replicas': ('mirrored', 'v1', True),
    'Keras, replicas': ('mirrored', 'keras', True),
}

# B67: what is done to a tensor -> what the line says is not available
EAGER = {
    **dict.fromkeys(('numpy', 'variable', 'assigned', 'function'), r'\.numpy\(\)'),
    'item': r'\.item\(\)',
    **dict.fromkeys(('if', 'and'), 'a tensor as a Python bool'),
    **dict.fromkeys(('for', 'unpack', 'in'), 'iterating over a tensor'),
    **dict.fromkeys(('float', 'int', 'mean', 'array', 'len', 'range', 'format'), 'the value of a tensor'),
}
# The same elsewhere: name -> (statements, what is done)
EAGER_ELSEWHERE = {
    'evaluation': (['experiment.model_fn = @eager_model_fn', 'eager_model_fn.where = "eval"'], 'numpy'),
    'input_fn': (['experiment.train_input_fn = @eager_input_fn'], 'if'),
    'map': (['experiment.train_input_fn = @eager_map_input_fn'], 'numpy'),
    'map, mean': (['experiment.eval_input_fn = @eager_map_input_fn'], 'mean'),
}

# B68: name -> (tf.summary's functions that the model_fn calls, within its own writer, number of names in the warning)
SUMMARIES = {
    'scalars': (['scalar', 'with step'], False, 2),
    'others': (['histogram', 'image', 'text'], False, 3),
    'own writer': (['scalar', 'histogram'], True, 2),
    'v1 alone': ([], False, 0),
}

# B72: what an input_fn returns -> what the one line of the message must hold
REFUSED = {
    'made': ['returning_input_fn returned a Dataset made before', 'must create the Dataset when it is called'],
    'function': ['returned <function', 'expected a tf.data.Dataset of (features, labels)'],
    'iterator': ['returned <', 'Iterator object', 'expected a tf.data.Dataset of (features, labels)'],
    'generator': ['returned <generator', 'expected a tf.data.Dataset of (features, labels)'],
    'text': ["returned 'train.csv'", 'expected a tf.data.Dataset of (features, labels)'],
    'nothing': ['returned None', 'expected a tf.data.Dataset of (features, labels)'],
    'three': ['returned 3 parts; expected (features, labels)'],
    'one': ['returned 1 parts; expected (features, labels)'],
}
# name -> (arguments, what the one line of the message must hold)
REFUSED_ELSEWHERE = {
    'called, to train': (bind('experiment.train_input_fn = @my_input_fn()'), ['train_input_fn', 'without ()']),
    'called, to evaluate': (bind('experiment.eval_input_fn = @my_input_fn()'), ['eval_input_fn', 'without ()']),
    'called, to predict': (bind('experiment.predict_input_fn = @my_input_fn()'), ['predict_input_fn', 'without ()']),
    'made, to evaluate': (
        bind('experiment.eval_input_fn = @returning_input_fn', 'returning_input_fn.what = "made"'),
        ['must create the Dataset when it is called'],
    ),
    'tensors, replicas': (
        ['--strategy=mirrored', *bind(RETURNING, 'returning_input_fn.what = "initializable"')],
        ['returning_input_fn returned tensors', 'RunConfig.train_distribute needs a tf.data.Dataset'],
    ),
}
ACCEPTED = ['list', 'initializable', 'one shot', 'arrays']

# B104: receiver -> what the one line of the message must hold
RECEIVERS = {
    '@dict_receiver_fn': ['dict_receiver_fn (case_module.py:', 'returned a dict; expected tf.estimator.export.Serving'],
    '@spec_receiver_fn': ['spec_receiver_fn (case_module.py:', 'returned a TensorSpec; expected tf.estimator.export.S'],
    '@parsing_receiver_fn': ['parsing_receiver_fn (case_module.py:', 'Unsupported', "key 'x'"],
    '@good_receiver_fn()': ['good_receiver_fn is called by gin', 'written without (): @good_receiver_fn'],
}

# B105: export_outputs -> (further statements, what the one line of the message must hold; None: it exports)
EXPORT_OUTPUTS = {
    'none': ([], None),
    'one': ([], None),
    'two': (['experiment.serving_default = "b"'], None),
    'two without default': ([], ["'infer' (PREDICT)", "'a', 'b'", "expected one of them under the key 'serving_d"]),
    'two, another default': (['experiment.serving_default = "c"'], ["has no 'c', only 'a', 'b'"]),
    'tensors': ([], ["'infer' (PREDICT)", "export_outputs['y'] is a tensor", 'PredictOutput']),
    'list': ([], ["'infer' (PREDICT)", 'export_outputs is a list', 'PredictOutput']),
}  # fmt: skip


def _cases():
    for name, (statements, _) in PARAMS.items():
        yield f'params {name}', [*bind(*statements), '--max_steps=1', '--verbosity=0']
    for name, (strategy, kind, attach) in NORMS.items():
        bound = bind('experiment.model_fn = @norm_model_fn', f'norm_model_fn.kind = {kind!r}')
        attached = bind(f'experiment.attach_update_ops = {attach}')
        yield f'norm {name}', [f'--strategy={strategy}', '--max_steps=60', '--mode=train', *bound, *attached]
    for what in EAGER:
        yield f'eager {what}', bind('experiment.model_fn = @eager_model_fn', f'eager_model_fn.what = {what!r}')
    for name, (statements, what) in EAGER_ELSEWHERE.items():
        function = statements[0].partition('@')[2]
        yield f'eager {name}', bind(*statements, f'{function}.what = {what!r}')
    for name, (what, writer, _) in SUMMARIES.items():
        bound = bind('experiment.model_fn = @summary_model_fn', f'summary_model_fn.what = {what}')
        yield f'summary {name}', [*bound, *bind(f'summary_model_fn.writer = {writer}'), '--max_steps=1', '--mode=train']
    for what in [*REFUSED, *ACCEPTED]:
        bound = bind(RETURNING, f'returning_input_fn.what = {what!r}')
        yield f'returned {what}', [*bound, '--max_steps=1', '--mode=train']
    for name, (arguments, _) in REFUSED_ELSEWHERE.items():
        yield f'returned {name}', arguments
    for receiver in RECEIVERS:
        yield f'receiver {receiver}', bind(OUTPUTS, FINAL, f'experiment.serving_input_receiver_fn = {receiver}')
        yield f'own receiver {receiver}', bind(OUTPUTS, FINAL, f'FinalExporter.serving_input_receiver_fn = {receiver}')
    for name, (statements, want_texts) in EXPORT_OUTPUTS.items():
        outputs = re.split('[ ,]', name)[0]
        bound = bind(OUTPUTS, FINAL, f'outputs_model_fn.outputs = {outputs!r}', *statements)
        yield f'outputs {name}', [*bound, '--max_steps=1', *['--mode=train'] * (want_texts is None)]


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """(directory, name -> Result)."""
    directory = tmp_path_factory.mktemp('model_cases')
    case_module = (program.TESTS / 'case_module.py').read_text()
    for name, text in {'my.gin': MY_GIN, 'my_model.py': MY_MODEL, 'case_module.py': case_module}.items():
        (directory / name).write_text(text)
    cases = {name: [*MY, *arguments, f'--model_dir={name}'] for name, arguments in _cases()}
    return directory, program.run_forked(cases, directory)


def refused(runs, name, want_texts, want_code=2):
    """Fails the test unless a case has ended with one line that holds the texts, before anything was written."""
    directory, results = runs
    err = results[name].check(want_code).err
    assert err.startswith('estimator_trainer: error: ')
    assert err.count('\n') == 1, err
    for want_text in want_texts:
        assert want_text in err
    assert not (directory / name).exists()


@pytest.mark.parametrize('name', PARAMS)
def test_params_are_always_passed(runs, name):  # B65
    result = runs[1][f'params {name}'].check()
    assert f'params {PARAMS[name][1]}' in result.out.splitlines()
    assert 'Loss for final step' in result.err
    assert 'params are not passed' not in result.err


@pytest.mark.parametrize('name', NORMS)
def test_moving_averages(runs, name):  # B66
    directory, results = runs
    result = results[f'norm {name}'].check()
    reader = tf.train.load_checkpoint(str(directory / f'norm {name}'))
    mean = reader.get_tensor('batch_normalization/moving_mean')
    if NORMS[name][2]:
        assert result.err == ''
        assert ((mean > 4) & (mean < 5.5)).all()
    else:
        (warning,) = program.summary(directory / f'norm {name}')['warnings']
        assert warning.startswith('2 update ops are no dependencies of train_op')
        assert 'batch_normalization/' in warning
        assert (mean == 0).all()


@pytest.mark.parametrize('name', [*EAGER, *EAGER_ELSEWHERE])
def test_code_for_eager_mode_is_told_with_its_line(runs, name):  # B67
    directory, results = runs
    err = results[f'eager {name}'].check(1).err
    lines = (directory / 'case_module.py').read_text().splitlines()
    what = EAGER_ELSEWHERE[name][1] if name in EAGER_ELSEWHERE else name
    line = 1 + next(number for number, line in enumerate(lines) if line.startswith(f"    '{what}': lambda tensor"))
    assert re.search(
        rf'^estimator_trainer: error: model_fn and input_fn run in graph mode: {EAGER[what]} is not available '
        rf'\(.*case_module\.py:{line}\)$',
        err,
        re.MULTILINE,
    ), err
    assert 'Traceback' in err
    assert not (directory / f'eager {name}').exists()


@pytest.mark.parametrize('name', SUMMARIES)
def test_summaries_that_nobody_writes(runs, name):  # B68
    directory, results = runs
    results[f'summary {name}'].check()
    model_dir = directory / f'summary {name}'
    (events,) = model_dir.glob('events.out.tfevents.*')
    tags = {value.tag for event in tf.compat.v1.train.summary_iterator(str(events)) for value in event.summary.value}
    assert 'v1' in tags
    assert 'v2' not in tags
    want_count = SUMMARIES[name][2]
    warnings = program.summary(model_dir)['warnings']
    assert len(warnings) == bool(want_count)
    for warning in warnings:
        names = re.fullmatch(r'tf\.summary in the model_fn has no effect \((.*)\): .*', warning)[1]
        assert [one.partition('_')[0] for one in names.split(', ')] == ['v2'] * want_count


@pytest.mark.parametrize('what', REFUSED)
def test_what_is_no_input(runs, what):  # B72
    refused(runs, f'returned {what}', REFUSED[what])


@pytest.mark.parametrize('name', REFUSED_ELSEWHERE)
def test_what_is_no_input_elsewhere(runs, name):  # B72
    refused(runs, f'returned {name}', REFUSED_ELSEWHERE[name][1])


@pytest.mark.parametrize('what', ACCEPTED)
def test_what_is_an_input(runs, what):  # B72
    directory, results = runs
    results[f'returned {what}'].check()
    assert program.summary(directory / f'returned {what}')['final_step'] == 1


@pytest.mark.parametrize('whose', ['', 'own '])
@pytest.mark.parametrize('receiver', RECEIVERS)
def test_what_is_no_receiver(runs, whose, receiver):  # B104
    refused(runs, f'{whose}receiver {receiver}', RECEIVERS[receiver])


@pytest.mark.parametrize('name', EXPORT_OUTPUTS)
def test_export_outputs(runs, name):  # B105
    directory, results = runs
    _, want_texts = EXPORT_OUTPUTS[name]
    if want_texts is not None:
        refused(runs, f'outputs {name}', want_texts)
        return
    results[f'outputs {name}'].check()
    (export,) = program.summary(directory / f'outputs {name}')['exports']
    with Predictor(str(directory / export['path'])) as predictor:
        assert list(predictor({'x': [[1.0, 2.0]]})) == ['y']


def test_a_predictor_loads_once(runs, tmp_path):  # B109
    export_dir = tmp_path / 'export'
    shutil.copytree(next((runs[0] / 'outputs none/export/final').iterdir()), export_dir)
    rows = np.random.RandomState(1).rand(10, 2).astype(np.float32)
    with Predictor(str(export_dir)) as predictor:
        shutil.rmtree(export_dir)
        want = predictor({'x': rows})['y']
        np.testing.assert_allclose([predictor({'x': rows[i : i + 1]})['y'][0] for i in range(10)], want, rtol=1e-5)
