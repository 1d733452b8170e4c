"""Batch arithmetic, as it is told."""

import pytest

from estimator_trainer.batches import Batch


@pytest.mark.parametrize(
    ('batch', 'want_global', 'want_text'),
    [
        (Batch(1, 1, True, 32), 32, '32 examples a step'),
        (Batch(1, 2, True, 16), 32, '32 examples a step: 2 replicas x 16'),
        (Batch(1, 2, True, 600), 1200, '1,200 examples a step: 2 replicas x 600'),
        (Batch(1, 1, False, 16), 16, '16 examples a step'),
        (Batch(3, 1, False, 16), 16, '16 examples a step of each of 3 asynchronous workers'),
        (Batch(3, 2, False, 8), 16, '16 examples a step of each of 3 asynchronous workers: 2 replicas x 8'),
        (Batch(2, 1, True, 16), 32, 'global batch 32: 2 workers x 16'),
        (Batch(2, 2, True, 16), 64, 'global batch 64: 2 workers x 2 replicas x 16'),
    ],
)
def test_batches(batch, want_global, want_text):
    assert str(batch) == want_text
    assert batch.global_batch == batch.as_dict()['global_batch'] == want_global
    assert Batch.of(batch.as_dict()) == batch
