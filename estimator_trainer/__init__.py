"""Trains, evaluates and serves TensorFlow Estimator code on every TensorFlow from 2.15 to 2.21."""

__version__ = '0.1.0'
