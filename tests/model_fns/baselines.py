"""What scikit-learn's defaults reach on the CSV files that ship: the mark the example configs have to meet.

Not a test: `configs/penguins.gin` and `configs/digits.gin` are compared with these by the end-to-end tests.
scikit-learn is a test-only requirement, imported where it is used so that other tests run without it.
"""

import csv
from pathlib import Path

import numpy as np

import input_fns

DATA = Path(input_fns.__file__).parent / 'data'


def read(path: Path, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns a CSV file's features, float64 [rows, columns], and its labels, text [rows]."""
    with open(path, newline='') as file:
        rows = list(csv.DictReader(file))
    labels = np.array([row.pop(label) for row in rows])
    return np.array([[float(value) for value in row.values()] for row in rows]), labels


def penguins_accuracy() -> float:
    """Returns the eval accuracy of LogisticRegression on inputs standardised by the training file."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return _accuracy(make_pipeline(StandardScaler(), LogisticRegression()), 'penguins', 'species')


def digits_accuracy() -> float:
    """Returns the better eval accuracy of two SVCs: gamma='scale' (the default) and gamma=0.001.

    0.001 is the value of scikit-learn's own digits example for pixels of 0 to 16.
    """
    from sklearn.svm import SVC

    return max(_accuracy(SVC(gamma=gamma), 'digits', 'digit') for gamma in ('scale', 0.001))


def _accuracy(classifier, name: str, label: str) -> float:
    classifier.fit(*read(DATA / name / 'train.csv', label))
    return classifier.score(*read(DATA / name / 'eval.csv', label))
