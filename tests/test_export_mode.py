"""--mode=export of whole runs: what TensorFlow alone answers from the SavedModel is what --mode=predict writes."""

import csv
import json
import pathlib
import shutil

import numpy as np
import pytest

from tests import plain, program
from tests.conftest import MY_GIN, MY_MODEL
from tests.line_module import LINE_GIN
from tests.program import bind

pytestmark = pytest.mark.once('newest')

NO_MODEL_FN = ['--gin_file=my.gin', '--import_module=user_module', *bind('experiment.model_fn = None')]
LINEAR = [
    *(*NO_MODEL_FN, *bind('experiment.estimator = @LinearClassifier')),
    *bind('LinearClassifier.feature_columns = [@numeric_column()]'),
    *bind("numeric_column.key = 'x'", 'numeric_column.shape = [2]'),
]

# name -> arguments with which a model is trained, predicts and is exported.
MODELS = {
    'penguins': ['--gin_file=penguins.gin', '--max_steps=60'],
    'digits': ['--gin_file=digits.gin', '--max_steps=20'],
    'mirrored': ['--gin_file=penguins.gin', '--max_steps=30', '--strategy=mirrored'],  # case B107
    'canned': [*LINEAR, '--max_steps=20'],
    'keras': [*NO_MODEL_FN, '--max_steps=20', *bind('experiment.keras_model = @my_keras_model')],
    'line': ['--gin_file=line.gin'],
    'v1': ['--gin_file=line.gin', '--import_module=v1_module'],
}
# Exports of 'line' with something else bound; its predictions are the same.
OF_LINE = {
    'table': bind("experiment.serving_input_receiver_fn = {'number': ('int64', []), 'x': (%tf.float32, [2])}"),
    'function': bind('experiment.serving_input_receiver_fn = @line_receiver_fn'),
}
CASES = (*MODELS, *OF_LINE)
# A canned Estimator has signatures of its own for predictions; others have one, the default.
SIGNATURES = {
    **dict.fromkeys(CASES, ('serving_default', 'raw:serving_default')),
    'canned': ('predict', 'raw:predict'),
    'function': ('serving_default',),
}


def csv_columns(name, label):
    with open(program.TESTS.parent / 'input_fns' / 'data' / name / 'eval.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    return {column: [float(row[column]) for row in rows] for column in rows[0] if column != label}


def columns_of(case, directory):
    """Returns feature name -> rows of the evaluation input."""
    if case in ('penguins', 'mirrored'):
        return csv_columns('penguins', 'species')
    if case == 'digits':
        return csv_columns('digits', 'digit')
    if case in ('canned', 'keras'):
        return {'x': json.loads((directory / 'x.json').read_text())}
    shares = [number / 20 for number in range(21)]
    if case == 'function':
        return {'shares': [str(share) for share in shares]}
    return {'number': list(range(21)), 'x': [[share, 1 - share] for share in shares]}


CHOSEN = {'step': '10', 'name': 'model.ckpt-10', 'path': 'line/model.ckpt-10'}

# Writes what my_input_fn feeds, for a test process must not run TensorFlow ops before others do.
X_MODULE = """
import json
import gin
import my_model
import tensorflow as tf
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    x = session.run(tf.random.stateless_uniform([60, 2], [1, 2], -1.0, 1.0))
with open('x.json', 'w') as file:
    json.dump(x.tolist(), file)
"""


@pytest.fixture(scope='module')
def exported(tmp_path_factory):
    """(directory, case -> records that --mode=predict wrote, case -> signature -> output -> array)."""
    directory = tmp_path_factory.mktemp('exports')
    for name in ('line_module.py', 'user_module.py'):
        shutil.copy(program.TESTS / name, directory)
    files = {'my_model.py': MY_MODEL, 'my.gin': MY_GIN, 'line.gin': LINE_GIN, 'x_module.py': X_MODULE}
    files['v1_module.py'] = 'import tensorflow as tf\ntf.compat.v1.disable_v2_behavior()\n'
    for name, text in files.items():
        (directory / name).write_text(text)
    cases = {case: [*arguments, f'--model_dir={case}'] for case, arguments in MODELS.items()}
    predict = {case: [*arguments, '--mode=predict', f'--output={case}.jsonl'] for case, arguments in cases.items()}
    predict['x'] = ['--gin_file=my.gin', '--import_module=x_module', '--mode=plan', '--model_dir=x']
    export = {case: [*arguments, '--mode=export'] for case, arguments in cases.items()}
    export |= {case: [*export['line'], *bound, f'--output=served/{case}'] for case, bound in OF_LINE.items()}
    train = {case: [*arguments, '--mode=train'] for case, arguments in cases.items()}
    for commands in (train, predict, export):
        for result in program.run_forked(commands, directory).values():
            result.check()
    paths = {case: directory / case / 'export' / 'model' for case in MODELS}
    paths |= {case: directory / 'served' / case for case in OF_LINE}
    questions = {
        case: ('answers', str(next(path.iterdir())), columns_of(case, directory)) for case, path in paths.items()
    }
    records = {case: [json.loads(one) for one in (directory / f'{case}.jsonl').open()] for case in MODELS}
    records |= dict.fromkeys(OF_LINE, records['line'])
    return directory, records, plain.read(questions, directory)


@pytest.mark.parametrize('case', CASES)
def test_both_signatures_answer_what_predict_writes(exported, case):
    _, records, answers = exported
    for signature in SIGNATURES[case]:
        answer = answers[case][signature]
        assert answer
        if case != 'function':  # which does not take the number
            assert set(answer) == set(records[case][0])
        for name in set(answer) - ({'number', 'parity'} if case == 'function' else set()):
            want = [record[name] for record in records[case]]
            if answer[name].dtype == object:
                assert np.char.decode(answer[name].astype(bytes)).tolist() == want
            else:
                np.testing.assert_allclose(answer[name], want, rtol=1e-5, atol=1e-6)


def test_signatures(exported):
    _, _, answers = exported
    assert {case: sorted(answers[case]) for case in ('penguins', 'function', 'canned')} == {
        'penguins': ['raw:serving_default', 'serving_default'],
        'function': ['serving_default'],
        'canned': ['classification', 'predict', 'raw:predict', 'regression', 'serving_default'],
    }


def test_a_canned_classifier_classifies(exported):
    _, records, answers = exported
    scores = answers['canned']['serving_default']['scores']
    np.testing.assert_allclose(scores, [record['probabilities'] for record in records['canned']], rtol=1e-5)


def test_the_summary_tells_of_the_export(exported):
    directory, _, _ = exported
    for case in ('keras', 'line'):  # of the last export into model_dir, not of those into another directory
        summary = program.summary(directory / case)
        (entry,) = summary['exports']
        assert (summary['mode'], summary['status'], summary['evaluations']) == ('export', 'done', [])
        assert summary['checkpoint'] == f'{case}/model.ckpt-{entry["step"]}'
        assert (entry['name'], str(pathlib.PurePath(entry['path']).parent)) == ('model', f'{case}/export/model')
        assert (directory / entry['path'] / 'saved_model.pb').exists()


def test_the_checkpoint_that_is_evaluated_and_exported(exported):
    directory, _, _ = exported
    shutil.copytree(directory / 'line', directory / 'line2')
    arguments = ['--gin_file=line.gin', '--model_dir=line2']
    evaluations = {name: [*arguments, '--mode=evaluate', f'--checkpoint={value}'] for name, value in CHOSEN.items()}
    exports = {
        name: [*arguments, '--mode=export', f'--checkpoint={value}', f'--output=exports/{name}']
        for name, value in CHOSEN.items()
    }
    for name, result in program.run_forked(evaluations, directory).items():
        assert "evaluation 'eval' at step 10:" in result.check().out, name
    summary = program.summary(directory / 'line2')
    assert summary['evaluations'][0]['step'] == 10
    assert summary['checkpoint'] == 'line/model.ckpt-10'
    for name, result in program.run_forked(exports, directory).items():
        assert f"export 'model' of step 10: exports/{name}/" in result.check().out
    columns = {'number': [0, 20], 'x': [[0.0, 1.0], [1.0, 0.0]]}
    paths = {name: next((directory / 'exports' / name).iterdir()) for name in CHOSEN}
    found = plain.read(
        {
            'variables': ('variables', 'line/model.ckpt-10'),
            **{name: ('answers', str(path), columns) for name, path in paths.items()},
        },
        directory,
    )
    want = found['variables']['w'][::-1] + found['variables']['b']
    for name in CHOSEN:
        np.testing.assert_allclose(found[name]['raw:serving_default']['y'], want, rtol=1e-5)
