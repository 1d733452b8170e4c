"""tf.estimator.RunConfig as a gin configurable whose train_distribute and eval_distribute may be strategy names."""

import os
from typing import Any

import gin

from estimator_trainer import strategies
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError
from estimator_trainer.gin_config import first_line
from estimator_trainer.topology import Topology

# Fields of RunConfig that Estimator compares, and does not say which it cannot compare, or does not check at all.
_TYPES = {
    'tf_random_seed': int,
    'save_summary_steps': int,
    'save_checkpoints_steps': int,
    'save_checkpoints_secs': int | float,
    'keep_checkpoint_max': int,
    'keep_checkpoint_every_n_hours': int | float,
    'log_step_count_steps': int,
    'session_creation_timeout_secs': int | float,
    'experimental_max_worker_delay_secs': int | float,
    'checkpoint_save_graph_def': bool,
}


def _run_config(*, topology: Topology, **fields: Any) -> tf.estimator.RunConfig:
    """Returns the RunConfig of this task.

    Args:
        topology: which task this is; RunConfig reads it from TF_CONFIG, which is written for it.
        **fields: arguments of tf.estimator.RunConfig, under its own names.

    Raises:
        UserError: RunConfig refuses a field.
    """
    model_dir = fields.get('model_dir')
    if model_dir is not None:
        if not isinstance(model_dir, str) or not model_dir:
            raise UserError(f'RunConfig.model_dir: expected a directory, found {model_dir!r}')
        if set(model_dir) & (set('[]*?\\') - {os.sep}):
            raise UserError(
                f'RunConfig.model_dir: {model_dir!r} has one of [ ] * ? \\, which TensorFlow takes for patterns'
            )
        fields['model_dir'] = os.path.join(os.path.expanduser(model_dir), topology.trial).rstrip('/') or '/'
    for name, value in fields.items():
        kind = _TYPES.get(name)
        if kind and value is not None and not (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
            expected = {int: 'a whole number', bool: 'True, False'}.get(kind, 'a number')
            raise UserError(f'RunConfig.{name}: expected {expected} or None, found {value!r}')
    seed = fields.get('tf_random_seed')
    if seed is not None and not 0 <= seed < 2**32:
        raise UserError(f'RunConfig.tf_random_seed (--seed): expected 0 to {2**32 - 1}, found {seed}')
    # Whatever trains, evaluation runs in one process; on one device unless it is told otherwise.
    fields.setdefault('eval_distribute', 'none')
    strategies.export_tf_config(topology)
    for name, of in (('train_distribute', topology), ('eval_distribute', Topology())):
        where = f'RunConfig.{name}'
        chosen = strategies.choose(fields.get(name), of, where)
        if name == 'train_distribute' and topology.task.job in ('ps', 'evaluator'):
            # These do not train; under a strategy for training, RunConfig would call each of them the chief.
            chosen = 'none'
        fields[name] = strategies.make(chosen, of, where)
    cpus = max(strategies.cpu_count(fields['train_distribute']), strategies.cpu_count(fields['eval_distribute']))
    fields['session_config'] = _session_config(fields.get('session_config'), cpus)
    try:
        return tf.estimator.RunConfig(**fields)
    except (ValueError, TypeError, AttributeError) as error:
        message = first_line(error)
        name = next((name for name in fields if name in message), None)
        raise UserError(
            f'RunConfig.{name}: {message}; found {fields[name]!r}' if name else f'RunConfig: {message}'
        ) from None


# gin takes the names of the parameters from here.
_run_config.__wrapped__ = tf.estimator.RunConfig.__init__
RunConfig = gin.external_configurable(_run_config, name='RunConfig', module='tf.estimator')


def _session_config(given: Any, cpus: int) -> Any:
    """Returns the ConfigProto with as many CPU devices as the strategy uses: a session has one otherwise, and hangs."""
    if cpus < 2:
        return given
    config = tf.compat.v1.ConfigProto()
    if given is not None:
        config.CopyFrom(given)
    else:  # What Estimator takes where it is given none.
        config.allow_soft_placement = True
        config.graph_options.rewrite_options.meta_optimizer_iterations = 1
    config.device_count['CPU'] = max(config.device_count['CPU'], cpus)
    return config
