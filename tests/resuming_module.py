"""What a user has written who notes each example that is trained on."""

import os
import signal
import time

import gin
import tensorflow as tf

v1 = tf.compat.v1


@gin.configurable
def numbers_input_fn(examples=48, batch_size=4, num_input_pipelines=1, input_pipeline_id=0):
    numbers = tf.data.Dataset.range(examples).shard(num_input_pipelines, input_pipeline_id).shuffle(examples)
    return numbers.map(lambda n: ({'number': n}, tf.cast(n, tf.float32) / 48)).batch(batch_size)


@gin.configurable
def numbers_model_fn(features, labels, mode):
    numbers = tf.identity(features['number'], 'numbers')
    outputs = v1.layers.dense(tf.cast(numbers, tf.float32)[:, None] / 48, 1)[:, 0]
    loss = v1.losses.mean_squared_error(labels, outputs)
    train_op = v1.train.AdamOptimizer(0.01).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@gin.configurable
class NoteHook(v1.train.SessionRunHook):
    """Writes the numbers of each batch into a file of this task's; kills the process after $KILL_AT batches."""

    def __init__(self, seconds=0.0):
        task = os.environ.get('TF_CONFIG', '')
        job = next((job for job in ('chief', 'worker') if f'"type": "{job}"' in task), 'local')
        self._path = f'{job}-0.txt'
        self._left = int(os.environ.get('KILL_AT', 0))
        self._seconds = seconds

    def begin(self):
        self._numbers = v1.get_default_graph().get_tensor_by_name('numbers:0')

    def before_run(self, run_context):
        return v1.train.SessionRunArgs(self._numbers)

    def after_run(self, run_context, run_values):
        with open(self._path, 'a') as file:
            file.write(' '.join(map(str, run_values.results)) + '\n')
        time.sleep(self._seconds)
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


GIN = """\
import resuming_module
experiment.model_fn = @numbers_model_fn
experiment.train_input_fn = @numbers_input_fn
experiment.eval_input_fn = @eval/numbers_input_fn
experiment.hooks = [@NoteHook()]
RunConfig.save_checkpoints_steps = 4
"""
