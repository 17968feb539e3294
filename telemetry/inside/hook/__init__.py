"""What is put into the training: this folder stands first on its PYTHONPATH.

No file imports anything of gputel. Python 2.7 must be able to read `sitecustomize.py`, and 3.8 the others.
"""
