"""Each private symbol that the framework needs is there, and does what it is needed for."""

import inspect
import sys
from types import ModuleType

import pytest

from estimator_trainer.compat import internals
from estimator_trainer.errors import TrainerError

WANT_KIND = {
    'tf_export': inspect.ismodule,
    'LazyLoader': inspect.isclass,
    'run_distribute_coordinator': inspect.isfunction,
    'CoordinatorMode': inspect.isclass,
    'get_current_worker_context': inspect.isfunction,
    'tpu_system_metadata': inspect.ismodule,
}


def test_each_symbol_has_a_test():
    assert WANT_KIND.keys() == internals.SYMBOLS.keys()


@pytest.mark.parametrize('name', internals.SYMBOLS)
def test_symbol_is_there(name):
    assert WANT_KIND[name](getattr(internals, name))


def test_tf_export_knows_estimator():
    assert internals.tf_export.ESTIMATOR_API_NAME == 'estimator'
    assert internals.tf_export.API_ATTRS['estimator'].names == '_estimator_api_names'
    assert internals.tf_export.API_ATTRS_V1['estimator'].constants == '_estimator_api_constants_v1'


def test_lazy_loader_loads_when_it_is_used():
    parent = {}
    module = internals.LazyLoader('colors', parent, 'colorsys')
    assert isinstance(module, ModuleType)
    assert parent == {}
    assert module.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
    assert parent == {'colors': sys.modules['colorsys']}


def test_the_coordinator_runs_a_function_in_a_worker_context():
    calls = []

    def work(strategy):
        context = internals.get_current_worker_context()
        calls.append((type(strategy), context.is_chief, context.task_type, context.master_target))

    assert internals.get_current_worker_context() is None
    internals.run_distribute_coordinator(
        work, _Strategy(), eval_fn=None, mode=internals.CoordinatorMode.INDEPENDENT_WORKER, rpc_layer='grpc'
    )
    assert internals.get_current_worker_context() is None
    assert calls == [(_Strategy, True, None, '')]


class _Strategy:
    """What the coordinator asks of a strategy on one process."""

    extended = None

    def configure(self, session_config, *cluster):
        assert session_config is not None


def test_a_name_that_is_not_listed():
    with pytest.raises(AttributeError, match='no_such_name'):
        _ = internals.no_such_name


def test_a_symbol_that_tensorflow_dropped_is_named(monkeypatch):
    monkeypatch.setitem(
        internals.SYMBOLS, 'lost', internals.Symbol('tensorflow.python.util.tf_export', 'lost', 'a test')
    )
    with pytest.raises(TrainerError, match=r'no tensorflow\.python\.util\.tf_export:lost \(a test\)'):
        _ = internals.lost
