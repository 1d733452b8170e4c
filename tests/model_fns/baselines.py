"""What scikit-learn's defaults reach on the data that ship: the marks that the example configs have to meet.

Not a test: the end-to-end tests compare the configs with these. scikit-learn is a test-only requirement, imported where
it is used so that other tests run without it.
"""

import csv
import functools
import json
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


@functools.cache
def penguins() -> dict[str, float]:
    """Returns the eval accuracy of LogisticRegression on inputs standardised by the training file."""
    sets = (read(DATA / 'penguins' / f'{part}.csv', 'species') for part in ('train', 'eval'))
    return _classified(_standardised_logistic(), *sets)


@functools.cache
def digits() -> dict[str, float]:
    """Returns the better eval accuracy of two SVCs: gamma='scale' (the default) and gamma=0.001.

    0.001 is the value of scikit-learn's own digits example for pixels of 0 to 16.
    """
    from sklearn.svm import SVC

    sets = [read(DATA / 'digits' / f'{part}.csv', 'digit') for part in ('train', 'eval')]
    return max((_classified(SVC(gamma=gamma), *sets) for gamma in ('scale', 0.001)), key=lambda it: it['accuracy'])


@functools.cache
def census() -> dict[str, float]:
    """Returns eval accuracy and AUC of LogisticRegression on standardised numbers and one-hot categories."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def read_census(part):
        with open(DATA / 'census' / f'{part}.csv', newline='') as file:
            table = np.array(list(csv.reader(file))[1:], object)
        table[:, numbers] = table[:, numbers].astype(float)
        return table[:, :-1], table[:, -1].astype(str)

    # Of the columns age, workclass, education, education_num ... the numbers are at:
    numbers, others = [0, 3, 9, 10, 11], [1, 2, 4, 5, 6, 7, 8, 12]
    columns = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown='ignore'), others))
    return _classified(
        make_pipeline(columns, LogisticRegression(max_iter=1000)), read_census('train'), read_census('eval')
    )


@functools.cache
def wine() -> dict[str, float]:
    """Returns the eval accuracy of LogisticRegression on inputs standardised by the training file."""
    from estimator_trainer.compat import tf

    def read_wine(part):
        rows = []
        for record in tf.data.TFRecordDataset(str(DATA / 'wine' / f'{part}.tfrecord')).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            label = features['cultivar'].int64_list.value[0]
            names = sorted(set(features) - {'cultivar'})
            rows.append([*(features[name].float_list.value[0] for name in names), label])
        table = np.array(rows)
        return table[:, :-1], table[:, -1]

    return _classified(_standardised_logistic(), read_wine('train'), read_wine('eval'))


@functools.cache
def breast_cancer() -> dict[str, float]:
    """Returns eval accuracy and AUC of LogisticRegression on inputs standardised by the training file."""

    def read_breast_cancer(part):
        with np.load(DATA / 'breast_cancer' / f'{part}.npz') as arrays:
            names = [name for name in arrays if name != 'diagnosis']
            return np.stack([arrays[name] for name in names], axis=1), arrays['diagnosis'] == 'malignant'

    return _classified(_standardised_logistic(), read_breast_cancer('train'), read_breast_cancer('eval'))


@functools.cache
def diabetes() -> dict[str, float]:
    """Returns the eval root mean squared error of LinearRegression."""
    from sklearn.linear_model import LinearRegression

    def read_diabetes(part):
        rows = [json.loads(line) for line in (DATA / 'diabetes' / f'{part}.jsonl').read_text().splitlines()]
        labels = np.array([row.pop('progression') for row in rows])
        return np.array([[float(value) for value in row.values()] for row in rows]), labels

    (features, labels), (eval_features, eval_labels) = read_diabetes('train'), read_diabetes('eval')
    predicted = LinearRegression().fit(features, labels).predict(eval_features)
    return {'rmse': float(np.sqrt(np.mean((predicted - eval_labels) ** 2)))}


@functools.cache
def library_docs() -> dict[str, float]:
    """Returns the eval accuracy of LogisticRegression on the tf-idf of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    def read_docs(part):
        lines = (DATA / 'library_docs' / f'{part}.tsv').read_text().splitlines()
        labels, texts = zip(*(line.split('\t', 1) for line in lines), strict=True)
        return np.array(texts), np.array(labels)

    return _classified(make_pipeline(TfidfVectorizer(), LogisticRegression()), read_docs('train'), read_docs('eval'))


def _standardised_logistic():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression())


def _classified(classifier, train, evaluation) -> dict[str, float]:
    """Returns the eval accuracy, and for two classes the area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    classifier.fit(*train)
    scores = {'accuracy': float(classifier.score(*evaluation))}
    if len(classifier.classes_) == 2:
        probabilities = classifier.predict_proba(evaluation[0])[:, 1]
        scores['auc'] = float(roc_auc_score(evaluation[1] == classifier.classes_[1], probabilities))
    return scores
