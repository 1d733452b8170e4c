"""Every public name that TensorFlow 2.15 has is there, under each of the places that lead to it, and no other."""

import importlib
from pathlib import Path

import pytest

from estimator_trainer.compat import aliases, requirements, tf
from tests.compat import public_names

WANT = dict(line.split() for line in Path(__file__).with_name('public_names.txt').read_text().splitlines())
PREFIX = {aliases.API_V1: 'tf.compat.v1.estimator', aliases.API_V2: 'tf.estimator'}
V1_PARENTS = ('compat.v1', 'compat.v1.compat.v1', 'compat.v2.compat.v1')
V2_PARENTS = ('compat.v2', 'compat.v1.compat.v2', 'compat.v2.compat.v2')
PARENTS = [('tensorflow', aliases.API_V2)] + [
    (f'{top}.{path}', api)
    for top in ('tensorflow', 'tensorflow._api.v2')
    for api, paths in ((aliases.API_V1, V1_PARENTS), (aliases.API_V2, V2_PARENTS))
    for path in paths
]

# What v1 and v2 have different objects for; under every other name of both there is one.
WANT_OTHER_IN_V1 = {
    *(f'Baseline{what}' for what in ('Classifier', 'Estimator', 'Regressor')),
    *(f'DNN{what}' for what in ('Classifier', 'Estimator', 'Regressor')),
    *(f'DNNLinearCombined{what}' for what in ('Classifier', 'Estimator', 'Regressor')),
    *(f'Linear{what}' for what in ('Classifier', 'Estimator', 'Regressor')),
    'Estimator',
    *(f'{what}_parse_example_spec' for what in ('classifier', 'regressor')),
}


def under(module, prefix):
    return dict(public_names.members(module, prefix))


def kinds(members):
    return {name: public_names.kind(value) for name, value in members.items()}


@pytest.mark.parametrize('path', public_names.MODULES)
def test_names(path):
    prefix = f'tf.{path}'
    want = {name: kind for name, kind in WANT.items() if name.rpartition('.')[0].startswith(prefix)}
    assert want
    assert kinds(under(public_names.resolve(tf, path), prefix)) == want


@pytest.mark.parametrize('parent, api', PARENTS)
@pytest.mark.parametrize('way', ['attribute', 'import'])
def test_every_way_leads_to_the_same_objects(way, parent, api):
    module = importlib.import_module(parent if way == 'attribute' else f'{parent}.estimator')
    prefix = PREFIX[api]
    want = under(importlib.import_module(api), prefix)
    found = under(module.estimator if way == 'attribute' else module, prefix)
    assert kinds(found) == {name: kind for name, kind in WANT.items() if name.startswith(f'{prefix}.')}
    assert [name for name, kind in kinds(found).items() if kind != 'module' and found[name] is not want[name]] == []


def test_v1_and_v2_share_what_they_share_on_2_15():
    v1, v2 = under(tf.compat.v1.estimator, 'tf'), under(tf.estimator, 'tf')
    found = kinds(v2)
    other = {name for name in v1.keys() & v2.keys() if found[name] != 'module' and v1[name] is not v2[name]}
    assert other == {f'tf.{name}' for name in WANT_OTHER_IN_V1}


@pytest.mark.parametrize(
    'statement, name, want',
    [
        ('import tensorflow as tf', 'tf.keras.estimator.model_to_estimator', 'model_to_estimator_v2'),
        ('import tensorflow as tf', 'tf.compat.v2.keras.estimator.model_to_estimator', 'model_to_estimator_v2'),
        ('import tensorflow as tf', 'tf.compat.v1.keras.estimator.model_to_estimator', 'model_to_estimator'),
        ('import tensorflow.compat.v1 as tf', 'tf.keras.estimator.model_to_estimator', 'model_to_estimator'),
        ('import tensorflow.compat.v1 as tf', 'tf.compat.v1.keras.estimator.model_to_estimator', 'model_to_estimator'),
        ('from tensorflow.keras import estimator', 'estimator.model_to_estimator', 'model_to_estimator_v2'),
        ('from tensorflow.keras.estimator import model_to_estimator as made', 'made', 'model_to_estimator_v2'),
        ('from tensorflow.compat.v1.keras.estimator import model_to_estimator as made', 'made', 'model_to_estimator'),
    ],
)
def test_model_to_estimator(statement, name, want):
    scope = {}
    exec(statement, scope)
    keras = 'tf_keras' if requirements.check().legacy_keras else 'keras'
    assert eval(name, scope) is getattr(importlib.import_module(f'{keras}.src.estimator'), want)
