"""The program of Bazel's test targets: runs pytest on the files named on its command line."""

import sys

import pytest

if __name__ == '__main__':
    sys.exit(pytest.main(sys.argv[1:]))
