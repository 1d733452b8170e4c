"""Gin-configurable model_fns, one family of models a module."""
