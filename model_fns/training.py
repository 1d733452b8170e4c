"""How a model is trained: `optimization`, which the model_fns here use, and the train_op that comes of it.

On replicas each has the mean loss of its own batch. Estimator's `compute_gradients` divides it by their number and
`apply_gradients` sums the gradients, so a step is that of the mean over the global batch. What each replica adds to its
loss counts once that way, too.
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gin

from estimator_trainer import sync_replicas
from estimator_trainer.compat import tf
from estimator_trainer.errors import UserError, nearest
from model_fns import gradients

_v1 = tf.compat.v1
# Kingma & Ba, 2015, section 2.
_LEARNING_RATE = 0.001
# Those that fall from 1 to `end` while `done` goes from 0 to 1.
_FALLING = {
    # Loshchilov & Hutter, 2017, equation 5, without restarts.
    'cosine': lambda done, end: end + (1 - end) * (1 + tf.cos(done * math.pi)) / 2,
    'linear': lambda done, end: 1 - (1 - end) * done,
    'exponential': lambda done, end: end**done,
}
_SCHEDULES = ('constant', *_FALLING, 'inverse_square_root')
_NEEDS = 'expected an optimizer that is told its learning rate, such as @AdamOptimizer'


@dataclasses.dataclass(frozen=True)
class Optimization:
    """What `optimization` is bound to; see there.

    Raises:
        UserError: a value that cannot be, or values that do not go together.
    """

    learning_rate: float | None = None
    schedule: str | Callable = 'constant'
    warmup_steps: int = 0
    decay_steps: int | None = None
    end_fraction: float = 0.05
    optimizer: Any = None
    weight_decay: float = 0.0
    l2: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self):
        for mistake in (self._mistake_of_number(), self._mistake_of_schedule(), self._mistake_of_optimizer()):
            if mistake:
                raise UserError(f'optimization.{mistake}')

    def _mistake_of_number(self) -> str | None:
        for name in ('learning_rate', 'warmup_steps', 'weight_decay', 'l2'):
            if (getattr(self, name) or 0) < 0:
                return f'{name}: {getattr(self, name)}; expected at least 0'
        for name in ('decay_steps', 'clip_norm'):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                return f'{name}: {getattr(self, name)}; expected more than 0'
        if not 0 < self.end_fraction <= 1:
            return f'end_fraction: {self.end_fraction}; expected more than 0, at most 1'
        return None

    def _mistake_of_schedule(self) -> str | None:
        schedule, falls = self.schedule, self.schedule in _FALLING
        if isinstance(schedule, str) and schedule not in _SCHEDULES:
            names = ', '.join(_SCHEDULES)
            return f'schedule: {schedule!r}; expected {names}, or a function{nearest(schedule, _SCHEDULES)}'
        if falls and self.decay_steps is None:
            return f'decay_steps is not bound; expected the step at which the {schedule} schedule has fallen'
        if not falls and self.decay_steps is not None:
            return f'decay_steps: {self.decay_steps}; expected a schedule of {", ".join(_FALLING)}, not {schedule!r}'
        if falls and self.warmup_steps >= self.decay_steps:
            return f'warmup_steps: {self.warmup_steps}; expected fewer than decay_steps, {self.decay_steps}'
        if schedule == 'inverse_square_root' and not self.warmup_steps:
            return 'warmup_steps: 0; expected more for the schedule inverse_square_root'
        return None

    def _mistake_of_optimizer(self) -> str | None:
        if self._takes_rate:
            return None
        for name in ('learning_rate', 'weight_decay', 'warmup_steps'):
            if getattr(self, name):
                return f'{name}: {getattr(self, name)}; {_NEEDS}'
        return f'schedule: {self.schedule!r}; {_NEEDS}' if self.schedule != 'constant' else None

    @property
    def _takes_rate(self) -> bool:
        if self.optimizer is None:
            return True
        # A class that gin knows is called by way of another signature, of *args and **kwargs.
        made_by = self.optimizer.__init__ if inspect.isclass(self.optimizer) else self.optimizer
        return callable(self.optimizer) and 'learning_rate' in inspect.signature(made_by).parameters

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the learning rate, float32 scalar, of the update after which global_step is `step` + 1."""
        rate = tf.constant(_LEARNING_RATE if self.learning_rate is None else self.learning_rate, tf.float32)
        if callable(self.schedule):
            rate = tf.cast(self.schedule(rate, step), tf.float32)
        step, warm = tf.cast(step, tf.float32), float(self.warmup_steps)
        if self.schedule in _FALLING:
            done = tf.clip_by_value((step - warm) / (self.decay_steps - warm), 0.0, 1.0)
            rate *= _FALLING[self.schedule](done, self.end_fraction)
        elif self.schedule == 'inverse_square_root':
            rate *= tf.sqrt(warm / tf.maximum(step + 1, warm))
        return rate * tf.minimum((step + 1) / warm, 1.0) if warm else rate

    def penalty(self, variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
        """Returns what is added to the loss, float32 scalars."""
        weights = gradients.weights(variables) if self.l2 else []
        return [self.l2 * tf.nn.l2_loss(tf.convert_to_tensor(weight)) for weight in weights]

    def apply(
        self, loss: tf.Tensor, variables: Sequence[tf.Variable], global_step: tf.Variable, counts: bool
    ) -> tf.Operation:
        """Returns an op that moves `variables` against the gradient of `loss`, and global_step where it counts."""
        rate = self.rate(tf.convert_to_tensor(global_step))
        optimizer = _v1.train.AdamOptimizer if self.optimizer is None else self.optimizer
        if callable(optimizer):
            optimizer = optimizer(learning_rate=rate) if self._takes_rate else optimizer()
        if not isinstance(optimizer, _v1.train.Optimizer):
            raise UserError(
                f'optimization.optimizer: {optimizer!r}; expected one of tf.compat.v1.train, e.g. @AdamOptimizer'
            )
        if self._takes_rate and counts:
            _v1.summary.scalar('learning_rate', rate)
        found = [(each, its) for each, its in optimizer.compute_gradients(loss, variables) if each is not None]
        if self.clip_norm is not None:
            found = gradients.clipped(found, self.clip_norm)
        with tf.control_dependencies([gradients.decay(found, rate * self.weight_decay)] if self.weight_decay else []):
            applied = optimizer.apply_gradients(found, global_step if counts else None)
        if self.weight_decay and sync_replicas.of(_v1.get_default_graph()):
            raise UserError(
                'optimization.weight_decay: under @sync_replicas each task would take its share off; expected l2'
            )
        return applied


@gin.configurable
def optimization(
    learning_rate: float | None = None,
    schedule: Literal['constant', 'cosine', 'linear', 'exponential', 'inverse_square_root'] | Callable = 'constant',
    warmup_steps: int = 0,
    decay_steps: int | None = None,
    end_fraction: float = 0.05,
    optimizer: Any = None,
    weight_decay: float = 0.0,
    l2: float = 0.0,
    clip_norm: float | None = None,
) -> Optimization:
    """Says how the models here are trained.

    Args:
        learning_rate: the largest learning rate; None is 0.001 (Kingma & Ba, 2015, section 2).
        schedule: 'constant'; 'cosine', 'linear' or 'exponential', which fall to `end_fraction` of it at `decay_steps`
            and stay there, so that training further still learns; 'inverse_square_root', which falls after
            `warmup_steps` (Vaswani et al., 2017, equation 3); or a function of a learning rate and a global step, such
            as @polynomial_decay with its other parameters bound.
        warmup_steps: steps over which the learning rate first rises to its largest (Goyal et al., 2017, section 2.2).
        decay_steps: global step at which the learning rate has fallen.
        end_fraction: what is left of the learning rate then.
        optimizer: a class of tf.compat.v1.train, such as @AdagradOptimizer, or a function that makes an optimizer; it
            is given `learning_rate` where it takes that. Or an optimizer, which has a learning rate of its own, such as
            @sync_replicas(). None takes Adam.
        weight_decay: times the learning rate, the share of each weight that a step takes off beside the gradient's
            update (decoupled: Loshchilov & Hutter, 2019, algorithm 2, line 12, with the schedule in the learning rate).
        l2: half of this, times the sum of all squared weights, is added to the loss.
        clip_norm: gradients whose norm, over all variables, is larger are scaled down to it (Pascanu et al., 2013,
            algorithm 1). It is that of the sum over the replicas, which is sent around once more for it; of a task's
            own gradient where tasks are asynchronous, and under @sync_replicas.

    Weights, for weight_decay and l2, are the trainable variables of two or more dimensions: no biases, no scales.

    Returns:
        The optimization.

    Raises:
        UserError: a value that cannot be, or values that do not go together.
    """
    return Optimization(
        learning_rate,
        schedule,
        warmup_steps,
        decay_steps,
        end_fraction,
        optimizer,
        weight_decay,
        l2,
        clip_norm,
    )


def minimize(loss: tf.Tensor, *parts: tuple[Optimization, Sequence[tf.Variable]]) -> tuple[tf.Tensor, tf.Operation]:
    """Returns the loss with all that is added to it, and an op that makes a step.

    The op first runs the updates that are in the UPDATE_OPS collection. It moves global_step on by one, however many
    parts there are.

    Args:
        loss: the mean over the batch, float32 scalar.
        *parts: optimizations, each with the variables that it moves. Without any, `optimization` moves all.

    Raises:
        UserError: an optimization that cannot be.
    """
    parts = parts or ((optimization(), _v1.trainable_variables()),)
    loss = tf.add_n([loss, *(penalty for part, variables in parts for penalty in part.penalty(variables))])
    global_step = _v1.train.get_or_create_global_step()
    with tf.control_dependencies(_v1.get_collection(_v1.GraphKeys.UPDATE_OPS)):
        *others, (last, variables) = parts
        moved = [part.apply(loss, its_variables, global_step, counts=False) for part, its_variables in others]
        with tf.control_dependencies(moved):
            return loss, last.apply(loss, variables, global_step, counts=True)


def of_parameters(
    learning_rate: float, decay_steps: int | None, optimizer: Any
) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Operation]]:
    """Returns `minimize` for a model_fn that has parameters of its own instead of `optimization`.

    Args:
        learning_rate: Adam's.
        decay_steps: step at which that, falling along a half cosine, reaches its 20th; None keeps it constant.
        optimizer: an optimizer with a learning rate of its own, or a class or function that makes one; None takes Adam.
    """

    def train(loss):
        if optimizer is not None:
            own = Optimization(optimizer=optimizer() if callable(optimizer) else optimizer)
        else:
            own = Optimization(learning_rate, 'constant' if decay_steps is None else 'cosine', decay_steps=decay_steps)
        return minimize(loss, (own, _v1.trainable_variables()))

    return train
