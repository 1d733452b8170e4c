"""The models in clusters of real processes: divided tables, sparse gradients of different lengths, sums over tasks."""

import json

import pytest

from estimator_trainer.testing import LocalCluster
from tests import program

# Data of 0 to 9 words a text: gradients of tables differ in length from task to task.
GIN = """
import model_fns.{module}
import cluster_module
experiment.model_fn = @{model}
experiment.train_input_fn = @of_a_cluster_test
experiment.eval_input_fn = @eval/of_a_cluster_test
eval/of_a_cluster_test.repeat = False
experiment.max_steps = 12
feature_description.label = {{'label': {{'num_buckets': 3}}}}
parameter_server.min_slice_size = 300
RunConfig.tf_random_seed = 1
"""
TEXT = "feature_description.features = {'text': {'hash_buckets': 50, 'embedding_size': 4}}\n"
TABULAR = "feature_description.features = {'x': {}, 'number': {'num_buckets': 40, 'embedding_size': 4}}\n"
PENALTIES = 'optimization.clip_norm = 1.0\noptimization.weight_decay = 0.01\noptimization.l2 = 0.01\n'
IMAGE = 'residual_model_fn.filters = [2, 4]\nresidual_model_fn.max_value = 1.0\n'
# Last, for the packages that are tested are those that are installed.
MODULE = f"""
import sys
sys.path.append({str(program.TESTS.parent)!r})
import gin
from tests.model_fns import mirrored


@gin.configurable
def of_a_cluster_test(input_context=None, repeat=True):
    data = mirrored.dataset()
    if not repeat:
        return data.batch(7)
    if input_context:
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.repeat().batch(4)
"""


@pytest.mark.once('newest')
@pytest.mark.parametrize(
    ('model', 'module', 'bindings', 'cluster'),
    [
        ('bag_of_embeddings_model_fn', 'text', TEXT, 'chief:1,worker:1'),
        ('bag_of_embeddings_model_fn', 'text', TEXT + 'optimization.clip_norm = 1.0\n', 'chief:1,worker:1'),
        ('residual_model_fn', 'residual', IMAGE + PENALTIES, 'chief:1,worker:1'),
        ('wide_deep_model_fn', 'deep', TABULAR + PENALTIES, 'chief:1,ps:2'),
        ('deepfm_model_fn', 'interactions', TABULAR + 'deepfm_model_fn.embedding_size = 4\n', 'chief:1,worker:1,ps:2'),
    ],
)
def test_trains_and_evaluates(tmp_path, model, module, bindings, cluster):
    (tmp_path / 'my.gin').write_text(GIN.format(model=model, module=module) + bindings)
    (tmp_path / 'cluster_module.py').write_text(MODULE)
    unused = () if 'ps' in cluster else ('--gin_param=parameter_server.min_slice_size = 64000000',)
    with LocalCluster(cluster, '--gin_file=my.gin', *unused, model_dir='M', cwd=tmp_path) as running:
        result = running.finish(180).check()
    assert set(result.exit_codes.values()) == {0}
    summary = program.summary(tmp_path / 'M')
    assert summary['evaluations'][-1]['examples'] == 64
    assert (summary['stopped_because'], summary['warnings']) == ('max_steps', [])


def test_tables_are_planned_in_parts(tmp_path):
    (tmp_path / 'my.gin').write_text(GIN.format(model='dnn_model_fn', module='deep') + TABULAR)
    (tmp_path / 'cluster_module.py').write_text(MODULE)
    spec = {'chief': ['localhost:1'], 'ps': ['localhost:2', 'localhost:3']}
    planned = program.run(
        *('--gin_file=my.gin', '--model_dir=M', '--mode=plan', '--plan_format=json'),
        cwd=tmp_path,
        TF_CONFIG=json.dumps({'cluster': spec, 'task': {'type': 'chief', 'index': 0}}),
    ).check()
    parts = {variable['name']: variable['parts'] for variable in json.loads(planned.out)['variables']}
    assert (parts['embeddings/number'], parts['hidden_1/kernel']) == (2, 2)
    assert parts['hidden_0/bias'] == 1
