"""Gin-configurable input_fns, one data format a module."""
