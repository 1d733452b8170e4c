"""Predictions of whole runs, the checkpoint that a mode takes, and flags in modes that they are not for."""

import csv
import hashlib
import json
import os
import shutil

import numpy as np
import pytest

from tests import plain, program
from tests.line_module import LINE_GIN
from tests.program import bind

pytestmark = pytest.mark.once('oldest')

LINE = ['--gin_file=line.gin', '--model_dir=line']
PREDICT = [*LINE, '--mode=predict']
OLD = 'what was there'
TEN_AND = bind('predict/numbers_input_fn.examples = 1000000000', 'predict/numbers_input_fn.at = 10')
NO_PREDICT_INPUT = bind('experiment.predict_input_fn = None')
PENGUINS = 'input_fns/data/penguins/eval.csv'

PREDICTIONS = {
    'jsonl': [*PREDICT, '--output=new/folder/line.jsonl'],
    'csv': [*PREDICT, '--output=line.csv'],
    'tfrecord': [*PREDICT, '--output=line.tfrecord'],
    'over an old file': [*PREDICT, '--output=old/overwritten.jsonl'],
    'evaluation input': [*PREDICT, *NO_PREDICT_INPUT, '--output=eval.jsonl'],
    'mirrored': [*PREDICT, '--strategy=mirrored', '--output=mirrored.jsonl'],
    'step': [*PREDICT, '--checkpoint=10', '--output=step.jsonl'],
    'name': [*PREDICT, '--checkpoint=model.ckpt-10', '--output=name.jsonl'],
    'path': [*PREDICT, '--checkpoint=line/model.ckpt-10', '--output=path.jsonl'],
    'file': [*PREDICT, '--checkpoint=line/model.ckpt-10.index', '--output=file.jsonl'],
    'another directory': [
        *('--gin_file=line.gin', '--mode=predict', '--model_dir=nowhere', '--checkpoint=line'),
        '--output=another.jsonl',
    ],
    'penguins': ['--gin_file=penguins.gin', '--model_dir=penguins', '--mode=predict', '--output=penguins.jsonl'],
}

# name -> (arguments, exit code, what the one line of the message must hold)
MISTAKES = {
    'endless input': (
        [*PREDICT, *bind('predict/numbers_input_fn.repeat = True'), '--output=no.jsonl'],
        2,
        'experiment.predict_input_fn repeats for ever',
    ),
    'endless evaluation input': (
        [*PREDICT, '--output=no.jsonl', *NO_PREDICT_INPUT, *bind('eval/numbers_input_fn.repeat = True')],
        2,
        'experiment.eval_input_fn repeats for ever',
    ),
    'suffix': ([*PREDICT, '--output=no.json'], 2, "ends in .jsonl, .csv, .tfrecord; did you mean '.jsonl'?"),
    'no suffix': ([*PREDICT, '--output=jsonl'], 2, 'ends in .jsonl, .csv, .tfrecord'),
    'no output': (PREDICT, 2, '--mode=predict needs --output=FILE'),
    'a directory': ([*PREDICT, '--output=directory.csv'], 2, 'directory.csv: expected a file, found a directory'),
    'no folder for it': ([*PREDICT, '--output=/proc/no/no.csv'], 2, '/proc/no: cannot write to /proc'),
    'no checkpoint': (
        ['--gin_file=line.gin', '--model_dir=nowhere', '--mode=predict', '--output=no.csv'],
        2,
        '--mode=predict: no checkpoint in nowhere',
    ),
    'no checkpoint to export': (
        ['--gin_file=line.gin', '--model_dir=nowhere', '--mode=export'],
        2,
        '--mode=export: no checkpoint in nowhere',
    ),
    'no such step': (
        [*PREDICT, '--checkpoint=15', '--output=no.csv'],
        2,
        "--checkpoint: no checkpoint '15', neither as given nor in line",
    ),
    'no such path': ([*LINE, '--mode=export', '--checkpoint=a/b'], 2, "--checkpoint: no checkpoint 'a/b'"),
    'no such name': (
        [*LINE, '--mode=evaluate', '--checkpoint=model.ckpt-21'],
        2,
        "no checkpoint 'model.ckpt-21', neither as given nor in line; did you mean 'model.ckpt-20'",
    ),
    'no model_dir': (
        ['--gin_file=line.gin', '--mode=predict', '--output=no.csv'],
        2,
        '--mode=predict needs the --model_dir',
    ),
    'no input': (
        [*PREDICT, '--output=no.csv', *NO_PREDICT_INPUT, *bind('experiment.eval_input_fn = None')],
        2,
        'experiment.predict_input_fn is not bound',
    ),
    'another model': (
        ['--gin_file=penguins.gin', '--model_dir=line', '--mode=predict', '--output=no.csv'],
        2,
        'line/model.ckpt-30 is not a checkpoint of this model',
    ),
    'no batches': (
        [*PREDICT, *bind('predict/numbers_input_fn.examples = 0'), '--output=old/no batches.jsonl'],
        1,
        'experiment.predict_input_fn produced no batches',
    ),
    'no batches of the evaluation': (
        [*PREDICT, '--output=no.csv', *NO_PREDICT_INPUT, *bind('eval/numbers_input_fn.examples = 0')],
        1,
        'experiment.eval_input_fn produced no batches',
    ),
    'output for train': ([*LINE, '--mode=train', '--output=a.csv'], 2, '--output is for --mode=predict or export'),
    'output for evaluate': ([*LINE, '--mode=evaluate', '--output=a.csv'], 2, 'predict or export, not evaluate'),
    'checkpoint for train': ([*LINE, '--checkpoint=10'], 2, '--checkpoint is for --mode=evaluate or predict or export'),
    'checkpoint for plan': ([*LINE, '--mode=plan', '--checkpoint=10'], 2, 'not plan'),
    'plan_format for predict': (
        [*PREDICT, '--output=no.csv', '--plan_format=json'],
        2,
        '--plan_format is for --mode=plan, not predict',
    ),
    'local_cluster for predict': (
        [*PREDICT, '--output=no.csv', '--local_cluster=chief:1,ps:1'],
        2,
        '--local_cluster is for --mode=train_and_evaluate or train, not predict',
    ),
    'local_cluster for export': ([*LINE, '--mode=export', '--local_cluster=chief:1,ps:1'], 2, 'not export'),
}

# What ends in the middle: name -> (arguments, exit code). Each has an old file at its output.
BROKEN_OFF = {
    'input fails': ([*TEN_AND, *bind('predict/numbers_input_fn.then = @fail')], 1),
    'signal': ([*TEN_AND, *bind('predict/numbers_input_fn.then = @terminate')], 143),
    'signal while the input hangs': (
        [*TEN_AND, *bind('predict/numbers_input_fn.then = @terminate_and_hang'), *bind('trainer.grace_period = 1')],
        143,
    ),
}

PLANS = {'plan': [*LINE, '--mode=plan'], 'plan as json': [*LINE, '--mode=plan', '--plan_format=json']}


def files_in(directory):
    """Returns path -> (mtime, content) of all that is in a directory."""
    paths = sorted(directory.rglob('*'))
    return {
        str(path): (path.stat().st_mtime_ns, path.is_file() and hashlib.md5(path.read_bytes()).hexdigest())
        for path in paths
    }


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A directory with a trained line and penguins; what the tests of this module do there leaves them as they are."""
    directory = tmp_path_factory.mktemp('modes')
    shutil.copy(program.TESTS / 'line_module.py', directory)
    (directory / 'line.gin').write_text(LINE_GIN)
    (directory / 'directory.csv').mkdir()
    (directory / 'old').mkdir()
    for name in ('overwritten', 'no batches', *BROKEN_OFF):
        (directory / 'old' / f'{name}.jsonl').write_text(OLD)
    cases = {
        'line': LINE,
        'penguins': ['--gin_file=penguins.gin', '--model_dir=penguins', '--max_steps=60'],
    }
    for result in program.run_forked(cases, directory).values():
        result.check()
    return directory


@pytest.fixture(scope='module')
def results(trained):
    """Name -> Result of all that must leave model_dir as it is."""
    before = files_in(trained / 'line') | files_in(trained / 'penguins')
    broken_off = {
        name: [*PREDICT, *arguments, f'--output=old/{name}.jsonl'] for name, (arguments, _) in BROKEN_OFF.items()
    }
    mistakes = {name: arguments for name, (arguments, _, _) in MISTAKES.items()}
    results = program.run_forked(PREDICTIONS | mistakes | broken_off | PLANS, trained)
    results['left as it was'] = before == files_in(trained / 'line') | files_in(trained / 'penguins')
    return results


@pytest.fixture(scope='module')
def found(trained, results):
    """What TensorFlow alone reads from checkpoints and predictions."""
    results['tfrecord'].check()
    return plain.read(
        {
            'line': ('variables', 'line/model.ckpt-30'),
            'line at 10': ('variables', 'line/model.ckpt-10'),
            'tfrecord': ('records', 'line.tfrecord'),
            'penguins': ('variables', 'penguins/model.ckpt-60'),
        },
        trained,
    )


def line(variables, examples=21):
    """Returns what the line predicts, an example each."""
    share = np.arange(examples, dtype=np.float32) / 20
    y = np.stack([share, 1 - share], 1) @ variables['w'] + variables['b']
    return [
        {'number': number, 'y': value, 'twice': [value, 2 * value], 'parity': ['even', 'odd'][number % 2]}
        for number, value in enumerate(y.tolist())
    ]


def check(records, want):
    """Compares records, numbers up to rounding, in their order."""
    assert len(records) == len(want)
    for record, wanted in zip(records, want, strict=True):
        assert record.keys() == wanted.keys()
        for key, value in wanted.items():
            assert record[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-5, abs=1e-6))


def jsonl(path):
    return [json.loads(one) for one in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ('name', 'file', 'want_model', 'want_examples'),
    [
        ('jsonl', 'new/folder/line.jsonl', 'line', 21),
        ('over an old file', 'old/overwritten.jsonl', 'line', 21),
        ('evaluation input', 'eval.jsonl', 'line', 12),
        ('mirrored', 'mirrored.jsonl', 'line', 21),
        ('step', 'step.jsonl', 'line at 10', 21),
        ('name', 'name.jsonl', 'line at 10', 21),
        ('path', 'path.jsonl', 'line at 10', 21),
        ('file', 'file.jsonl', 'line at 10', 21),
        ('another directory', 'another.jsonl', 'line', 21),
    ],
)
def test_one_record_an_example_in_order_from_the_checkpoint(
    trained, results, found, name, file, want_model, want_examples
):
    assert f'{file} ({want_examples} records)' in results[name].check().out
    check(jsonl(trained / file), line(found[want_model], want_examples))


def test_csv(trained, results, found):
    results['csv'].check()
    with open(trained / 'line.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    want = [{**one, 'twice_0': one['twice'][0], 'twice_1': one['twice'][1]} for one in line(found['line'])]
    for one in want:
        del one['twice']
    check([{key: value if key == 'parity' else float(value) for key, value in row.items()} for row in rows], want)


def test_tfrecord(found):
    want = [
        {key: value if isinstance(value, list) else [value] for key, value in one.items()}
        for one in line(found['line'])
    ]
    records = [{**record, 'parity': [text.decode() for text in record['parity']]} for record in found['tfrecord']]
    for one in (*want, *records):
        one['parity'] = one['parity'][0]
    check(records, want)


def test_classes_are_told_by_their_names(trained, results, found):
    results['penguins'].check()
    records, species = jsonl(trained / 'penguins.jsonl'), ['Adelie', 'Chinstrap', 'Gentoo']
    with open(program.TESTS.parent / PENGUINS, newline='') as file:
        rows = list(csv.DictReader(file))
    columns = ['bill_length_mm', 'bill_depth_mm', 'flipper_length_mm', 'body_mass_g']
    inputs = np.array([[float(row[name]) for name in columns] for row in rows])
    hidden = (inputs - [44.0, 17.2, 201.1, 4211.0]) / [5.4, 2.0, 14.0, 779.0]
    variables = found['penguins']
    hidden = np.maximum(hidden @ variables['hidden_0/kernel'] + variables['hidden_0/bias'], 0)
    logits = hidden @ variables['logits/kernel'] + variables['logits/bias']
    want = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose([record['probabilities'] for record in records], want, atol=1e-5)
    assert [record['classes'] for record in records] == [species[record['class_ids']] for record in records]
    correct = [record['classes'] == row['species'] for record, row in zip(records, rows, strict=True)]
    (evaluation,) = program.summary(trained / 'penguins')['evaluations']
    assert np.mean(correct) == pytest.approx(evaluation['metrics']['accuracy'])


@pytest.mark.parametrize('name', MISTAKES)
def test_a_mistake_is_one_line(results, name):
    _, want_code, want_text = MISTAKES[name]
    result = results[name].check(want_code)
    errors = [one for one in result.err.splitlines() if one.startswith('estimator_trainer: error: ')]
    assert len(errors) == 1, result.err
    assert want_text in errors[0]
    assert 'Traceback' not in result.err


@pytest.mark.parametrize('name', BROKEN_OFF)
def test_what_is_broken_off_leaves_the_old_file(trained, results, name):
    results[name].check(BROKEN_OFF[name][1])
    assert (trained / 'old' / f'{name}.jsonl').read_text() == OLD
    if name == 'input fails':
        assert 'no such row' in results[name].err


def test_no_other_file_is_left(trained, results):
    for name in (*PREDICTIONS, *PLANS):
        results[name].check()
    names = {path.name for path in trained.rglob('*') if trained / 'line' not in path.parents}
    assert not [name for name in names if name.startswith('no.') or name.endswith('.tmp') or name == 'nowhere']
    assert (trained / 'old' / 'no batches.jsonl').read_text() == OLD


def test_predict_and_plan_write_nothing_to_model_dir(results):
    assert results['left as it was']


def test_a_model_dir_that_cannot_be_written_to(trained):
    locked = trained / 'locked'
    shutil.copytree(trained / 'line', locked)
    for path in (*locked.rglob('*'), locked):
        path.chmod(0o555 if path.is_dir() else 0o444)
    arguments = ['--gin_file=line.gin', '--model_dir=locked']
    cases = {
        'predict': [*arguments, '--mode=predict', '--output=locked.jsonl'],
        'plan': [*arguments, '--mode=plan'],
        'export': [*arguments, '--mode=export', '--output=of_locked'],
        'evaluate': [*arguments, '--mode=evaluate'],
        'train': [*arguments, '--max_steps=40'],
    }
    # Root may write anywhere, unless it gives that up.
    wrapper = ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] if os.geteuid() == 0 else []
    if wrapper and not shutil.which('setpriv'):
        pytest.skip('root without setpriv')
    results = program.run_forked(cases, trained, wrapper=wrapper)
    for name in ('predict', 'export'):
        results[name].check()
    assert len(jsonl(trained / 'locked.jsonl')) == 21
    assert len(list((trained / 'of_locked').glob('*/saved_model.pb'))) == 1
    for name in ('plan', 'evaluate', 'train'):
        assert 'locked: cannot write to' in results[name].check(2).err


def test_predictions_are_made_in_one_process(trained):
    cluster = {'chief': ['127.0.0.1:1'], 'ps': ['127.0.0.1:2']}
    result = program.run(
        *(*PREDICT, '--output=no.csv'),
        cwd=trained,
        TF_CONFIG=json.dumps({'cluster': cluster, 'task': {'type': 'chief', 'index': 0}}),
    ).check(2)
    assert '--mode=predict runs in one process, but TF_CONFIG makes this one chief:0; unset TF_CONFIG' in result.err
    assert not (trained / 'no.csv').exists()
