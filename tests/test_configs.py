"""The configs that ship train by their names from any directory, at least as well as scikit-learn on the same split."""

import pathlib

import numpy as np
import pytest

import configs
from estimator_trainer.predictor import Predictor
from tests import program
from tests.model_fns import baselines

# config -> the baseline's scores, the number of examples evaluated, and by how much a score may be worse: by an example
# of a small set
CONFIGS = {
    'penguins': (baselines.penguins, 69, 0.0),
    'digits': (baselines.digits, 360, 0.0),
    'digits_residual': (baselines.digits, 360, 0.0),
    'wine': (baselines.wine, 36, 0.0),
    'diabetes': (baselines.diabetes, 89, 0.0),
    'breast_cancer': (baselines.breast_cancer, 114, 1 / 114),
    'census': (baselines.census, 3000, 0.0),
    'census_dnn': (baselines.census, 3000, 0.0),
    'census_wide_deep': (baselines.census, 3000, 0.0),
    'census_deepfm': (baselines.census, 3000, 0.0),
    'census_dcn': (baselines.census, 3000, 0.0),
    'library_docs': (baselines.library_docs, 600, 0.0),
    'library_docs_transformer': (baselines.library_docs, 600, 0.0),
}
MIRRORED = 'penguins, mirrored'


def test_each_config_is_tested():
    assert {path.stem for path in pathlib.Path(configs.__file__).parent.glob('*.gin')} == set(CONFIGS)


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp('elsewhere')
    cases = {name: [f'--gin_file={name}.gin', f'--model_dir={name}', '--strict_unused'] for name in CONFIGS}
    cases[MIRRORED] = ['--gin_file=penguins.gin', '--strategy=mirrored', f'--model_dir={MIRRORED}']
    return folder, program.run_forked(cases, folder, timeout=200)


# All configs run in the first test, one after the other.
@pytest.mark.timeout(1500)
@pytest.mark.parametrize('name', [*CONFIGS, MIRRORED])
def test_scores(results, name):
    folder, ran = results
    result = ran[name].check()
    want, want_examples, slack = CONFIGS[name.partition(',')[0]]
    summary = program.summary(folder / name)
    assert summary['stopped_because'] == 'max_steps'
    assert (summary['warnings'], result.err) == ([], '')
    (evaluation,) = summary['evaluations']
    assert evaluation['examples'] == want_examples
    for metric, score in want().items():
        got = evaluation['metrics'][metric]
        # A float32 mean of ones and zeros may round below the exact quotient.
        assert got <= score if metric == 'rmse' else got >= score - slack - 1e-6, (metric, got, score)


# The second of each is of values that nobody has seen in training.
PEOPLE = {
    'age': [39, 17],
    'workclass': ['Private', 'no such class'],
    'education': ['Masters', ''],
    'education_num': [14, 1],
    'marital_status': ['Married-civ-spouse', 'unknown'],
    'occupation': ['Exec-managerial', 'none'],
    'relationship': ['Husband', 'unknown'],
    'race': ['White', 'unknown'],
    'sex': ['Male', 'unknown'],
    'capital_gain': [20000, -5],
    'capital_loss': [0, 2**40],
    'hours_per_week': [50, 0],
    'native_country': ['United-States', 'Atlantis'],
}
TEXTS = {'text': ['Return a DataFrame with the index reset.', '']}


@pytest.mark.parametrize('name', [name for name in CONFIGS if name.startswith(('census', 'library'))])
def test_exports_answer_whatever_the_values(results, name):
    folder, ran = results
    ran[name].check()
    answers = Predictor(str(folder / name / 'export' / 'final'))(PEOPLE if name.startswith('census') else TEXTS)
    assert answers['classes'][0] == (b'>50K' if name.startswith('census') else b'pandas')
    assert np.isfinite(answers['probabilities']).all()
