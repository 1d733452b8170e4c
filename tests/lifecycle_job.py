"""A cluster's ledgers in memory, and the lifecycle of one of its tasks: the fixture `job`."""

import queue
import threading
import time

from estimator_trainer.ledger import Ledger
from estimator_trainer.lifecycle import Lifecycle
from estimator_trainer.settings import Settings
from estimator_trainer.topology import Task, Topology
from tests.memory_files import MemoryFiles

SECONDS = 10  # Far more than any of the tests takes.
CHIEF, WORKER, PS = Task('chief', 0), Task('worker', 0), Task('ps', 0)


class Job:
    """A cluster's ledgers in memory, and the lifecycle of one of its tasks."""

    def __init__(self, monkeypatch):
        self.files = MemoryFiles()
        self.said = []
        self.aborts = queue.Queue()
        self.lifecycle = Lifecycle(self.said.append)
        monkeypatch.setattr(self.lifecycle, 'abort', self._abort)
        self.cluster = {'chief': ('127.0.0.1:1',), 'worker': ('127.0.0.1:2',), 'ps': ('127.0.0.1:3',)}

    def _abort(self, message, exit_code):
        self.aborts.put((message, exit_code))
        self.lifecycle.close()  # Ends the threads, as the end of the process would.
        if threading.current_thread() is threading.main_thread():
            raise SystemExit

    def aborted(self):
        return self.aborts.get(timeout=SECONDS)

    def settings(self, **fields):
        self.lifecycle.settings = Settings(**fields)

    def ledger(self, task):
        ledger = Ledger('M/run', task, 'r1', self.files, self.topology(task).tasks)
        ledger.begin()
        return ledger

    def topology(self, task):
        return Topology(self.cluster, task, 'r1')

    def watch(self, task, progress=dict):
        """Has the lifecycle watch the peers of `task`."""
        self.own = self.ledger(task)
        self.lifecycle.watch_peers(self.topology(task), self.own, progress)

    def until(self, condition):
        """Waits for what a thread does."""
        end = time.monotonic() + SECONDS
        while not condition() and time.monotonic() < end:
            time.sleep(0.005)
        assert condition()
