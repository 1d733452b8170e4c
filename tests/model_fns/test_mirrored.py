"""Two replicas train and evaluate as one device does, whatever is added to the loss or done with gradients."""

import pytest

from tests.model_fns import harness, mirrored

pytestmark = pytest.mark.once('newest')


@pytest.fixture(scope='module')
def said(tmp_path_factory):
    return harness.run_mirrored(mirrored.MODELS, tmp_path_factory.mktemp('mirrored'))


@pytest.mark.parametrize('model', mirrored.MODELS)
def test_two_replicas_are_as_one_device(said, model):
    lines, errors = said
    assert lines.get(model) == 'equal', errors[-4000:]
