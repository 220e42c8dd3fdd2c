"""Runs what nobody trusts: commands in a fresh copy of a workspace, confined by the kernel.

``sandbox.py`` is for callers, ``fences.py`` says what a command may see and by what it is held, ``warden.py`` holds it
from inside, ``kernel.py`` has the calls of Linux that the standard library lacks.
"""
