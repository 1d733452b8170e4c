"""What --local_cluster asks for, what the tasks are started with, and the ports kept for them."""

import socket

import pytest

from estimator_trainer import local_cluster
from estimator_trainer.errors import UserError


@pytest.mark.parametrize(
    ('spec', 'want_counts'),
    [
        ('chief:1,worker:2,ps:1', {'chief': 1, 'worker': 2, 'ps': 1}),
        (' chief , ps:2 ', {'chief': 1, 'ps': 2}),
        ('master:1,ps:1', {'chief': 1, 'ps': 1}),
        ('chief:1,worker:0,ps:1', {'chief': 1, 'worker': 0, 'ps': 1}),
        ('worker:2,ps:1', {'chief': 1, 'worker': 1, 'ps': 1}),
    ],
)
def test_parse(spec, want_counts):
    assert local_cluster.parse(spec) == want_counts


@pytest.mark.parametrize(
    ('spec', 'want_text'),
    [
        ('', "unknown job ''; expected chief, worker, ps, evaluator"),
        ('chief:1,,ps:1', "unknown job ''"),
        ('chief:1,pss:1', "unknown job 'pss'"),
        ('chief:1,wroker:1', "did you mean 'worker'?"),
        ('3', "unknown job '3'"),
        ('chief:1,ps:1,ps:1', 'ps is given twice'),
        ('chief:1,master:1', 'chief is given twice'),
        ('chief:one,ps:1', "'chief:one': expected job:count"),
        ('chief:,ps:1', "'chief:': expected job:count"),
        ('chief:1,ps:-1', "'ps:-1': expected job:count"),
        ('chief=1,ps=1', "unknown job 'chief=1'"),
    ],
)
def test_what_is_no_cluster(spec, want_text):
    with pytest.raises(UserError) as caught:
        local_cluster.parse(spec)
    assert f'--local_cluster={spec}: ' in str(caught.value)
    assert want_text in str(caught.value)


@pytest.mark.parametrize(
    ('spec', 'model_dir', 'want_text'),
    [
        ('chief,ps', None, 'a common --model_dir'),
        ('chief,ps', '', 'a common --model_dir'),
        ('chief,ps', object(), 'a common --model_dir'),
        ('ps', 'M', 'exactly one chief; found ps:1'),
        ('chief:0,ps:0', 'M', 'exactly one chief'),
        ('chief,ps', 'file/M', 'cannot make file/M/run/logs: Not a directory'),
    ],
)
def test_mistakes_start_nothing(tmp_path, monkeypatch, spec, model_dir, want_text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_cluster.subprocess, 'Popen', None)
    (tmp_path / 'file').touch()
    with pytest.raises(UserError) as caught:
        local_cluster.launch(spec, ['program'], model_dir)
    assert want_text in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ['file']


@pytest.mark.parametrize(
    'form', [['--local_cluster', 'x'], ['--local_cluster=x'], ['-local_cluster=x'], ['--fork_tasks'], []]
)
def test_the_tasks_get_all_arguments_but_this_one(form):
    others = ['--gin_file=a.gin', '--gin_param', 'local_cluster.x = 1', '--model_dir', 'local_cluster']
    assert local_cluster._without_own_flags(['program', *others, *form]) == others
    assert local_cluster._without_own_flags(['program', *form, *others]) == others


def test_a_reserved_port_is_for_those_who_share_it():
    with local_cluster._reserved_port() as address, local_cluster._reserved_port() as other:
        assert address != other
        host, _, port = address.rpartition(':')
        with socket.socket() as stranger, pytest.raises(OSError, match='in use'):
            stranger.bind((host, int(port)))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=5)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((host, int(port)))
            server.listen()
            socket.create_connection((host, int(port)), timeout=5).close()


def test_log_directories_that_were_there_stay(tmp_path):
    (tmp_path / 'M').mkdir()
    logs = local_cluster._LogDirectory(tmp_path / 'M' / 'run' / 'logs')
    (logs.path / 'chief-0.log').write_text('')
    logs.remove([logs.path / 'chief-0.log', logs.path / 'never-written.log'])
    assert list(tmp_path.iterdir()) == [tmp_path / 'M']
    assert list((tmp_path / 'M').iterdir()) == []


def test_what_others_have_written_stays(tmp_path):
    logs = local_cluster._LogDirectory(tmp_path / 'M' / 'run' / 'logs')
    (tmp_path / 'M' / 'model.ckpt-1.index').write_text('')
    logs.remove([])
    assert [path.name for path in (tmp_path / 'M').iterdir()] == ['model.ckpt-1.index']
