"""What the hooks see of a session: counts of steps and examples, and who stopped it."""

import inspect

import pytest

from estimator_trainer.compat import tf
from estimator_trainer.hooks import EvaluationHook, Stopped, TrainingHook
from estimator_trainer.user_fns import BATCH_SIZES

v1 = tf.compat.v1


class Calls(list):
    """Records the calls of a hook's callbacks."""

    def hook(self, every_n_steps=None, should_stop=lambda: False, **callbacks):
        def record(name):
            return lambda *args: self.append((name, *args))

        names = [name for name in list(inspect.signature(TrainingHook).parameters)[2:] if name != 'last_step']
        return TrainingHook(every_n_steps, should_stop, **({name: record(name) for name in names} | callbacks))

    def of(self, name):
        return [args for called, *args in self if called == name]


class OtherWorker(v1.train.SessionRunHook):
    """Moves global_step on after each run, unseen by what was fetched in the run."""

    def begin(self):
        self._move = v1.assign_add(v1.train.get_global_step(), 1)

    def after_run(self, run_context, run_values):
        run_context.session.run(self._move)


class StopAfter(v1.train.SessionRunHook):
    def __init__(self, runs):
        self._left = runs

    def after_run(self, run_context, run_values):
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def train(*hooks, sizes=(8,), first_step=0, runs=10):
    """Counts global_step up in a session of its own, `runs` times or until a hook stops it; returns the last step."""
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        for size in sizes:
            v1.add_to_collection(BATCH_SIZES, tf.constant(size, tf.int64))
        v1.losses.add_loss(tf.constant(0.5))
        train_op = v1.assign_add(step, 1)
        ready = v1.train.Scaffold(init_fn=lambda _, session: step.load(first_step, session))
        creator = v1.train.ChiefSessionCreator(ready)
        with v1.train.MonitoredSession(creator, hooks=hooks) as session:
            for _ in range(runs):
                if session.should_stop():
                    break
                last = session.run([train_op, step])[1]
        return int(last)


@pytest.mark.parametrize(
    ('sizes', 'want_batch', 'want_examples'),
    [((8,), [[[8]]], 80), ((8, 7), [[[8, 7]]], 150), ((), [[[]]], None)],
    ids=['one', 'replicas', 'without batch dimension'],
)
def test_counts(sizes, want_batch, want_examples):
    calls = Calls()
    hook = calls.hook()
    assert not hook.started
    train(hook, sizes=sizes, first_step=100)
    assert hook.started
    assert hook.seconds > 0
    assert hook.step == 110
    assert hook.examples == want_examples
    assert calls.of('before_session') == calls.of('on_start') == [[]]
    assert calls.of('on_first_step') == want_batch
    assert not hook.stopped_by_hook


@pytest.mark.parametrize(
    ('every_n_steps', 'want_steps'), [(4, [104, 108]), (1, list(range(101, 111))), (11, []), (0, []), (None, [])]
)
def test_progress(every_n_steps, want_steps):
    calls = Calls()
    train(calls.hook(every_n_steps), first_step=100)
    assert [step for step, *_ in calls.of('on_progress')] == want_steps
    for _, loss, steps_per_second, examples_per_second in calls.of('on_progress'):
        assert loss == 0.5
        assert examples_per_second == pytest.approx(8 * steps_per_second)


def test_progress_without_batch_dimension_has_no_rate_of_examples():
    calls = Calls()
    train(calls.hook(5), sizes=())
    assert [rate for *_, rate in calls.of('on_progress')] == [None, None]


def test_each_step_is_shown_only_where_asked_for():
    calls, silent = Calls(), Calls()
    train(calls.hook(), silent.hook(on_step=None))
    assert len(calls.of('on_step')) == 10
    assert silent.of('on_step') == []


@pytest.mark.parametrize('first', ['this', 'other'])
@pytest.mark.parametrize(
    ('runs_until_told', 'runs_of_the_other', 'want_step', 'want_stopped_by_hook'),
    [(3, 99, 3, False), (99, 3, 3, True), (99, 99, 10, False), (4, 3, 3, True), (3, 4, 3, False), (3, 3, 3, None)],
)
def test_who_stopped_the_training(first, runs_until_told, runs_of_the_other, want_step, want_stopped_by_hook):
    left = iter(range(1, 100))
    hook = Calls().hook(should_stop=lambda: next(left) >= runs_until_told)
    hooks = [hook, StopAfter(runs_of_the_other)]
    if want_stopped_by_hook is None:  # Both ask for it.
        want_stopped_by_hook = first == 'other'
    train(*(hooks if first == 'this' else reversed(hooks)))
    assert hook.step == want_step
    assert hook.stopped_by_hook == want_stopped_by_hook


def test_a_session_made_anew_goes_on_counting():
    calls = Calls()
    hook = calls.hook()
    train(hook, runs=4)
    train(hook, first_step=4, runs=3)
    assert (hook.step, hook.examples) == (7, 56)
    assert calls.of('on_start') == [[]]


class Failing(v1.train.SessionRunHook):
    """Fails in the fourth run, in one of its methods."""

    def __init__(self, method):
        self._method, self._calls = method, 0
        setattr(self, method, self._fail)

    def _fail(self, *_):
        self._calls += 1
        if self._calls == 4:
            raise KeyError(self._method)


@pytest.mark.parametrize(
    ('method', 'want_runs', 'want_step', 'want_in_step'),
    [('before_run', 3, 103, False), ('after_run', 4, 104, False)],
)
def test_a_run_counts_although_another_hook_fails(method, want_runs, want_step, want_in_step):
    hook = Calls().hook()
    with pytest.raises(KeyError):
        train(Failing(method), hook, first_step=100)
    assert (hook.runs, hook.step, hook.examples) == (want_runs, want_step, 8 * want_runs)
    assert hook.position == (want_step - 1, want_runs - 1)
    assert hook.in_step == want_in_step
    assert hook.loss == 0.5


@pytest.mark.parametrize(('sizes', 'want_examples'), [((8, 7), 150), ((), None)])
def test_evaluation_counts(sizes, want_examples):
    hook = EvaluationHook(lambda: False)
    train(hook, sizes=sizes)
    assert (hook.batches, hook.examples) == (10, want_examples)


def test_evaluation_is_broken_off_when_told():
    left = iter(range(1, 100))
    hook = EvaluationHook(lambda: next(left) >= 3)
    with pytest.raises(Stopped):
        train(hook)
    assert hook.batches == 3


def test_the_last_step_is_not_passed_by_more_than_one_run_of_each_worker():
    # 0 -> 2 -> 4 ...: at 10 the hook stops, however old the step is that the run has fetched.
    hook = Calls().hook(last_step=9)
    train(OtherWorker(), hook, runs=30)
    assert hook.step == 10
