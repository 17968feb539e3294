"""Waits in every Python of a recorded command for `import torch`, and steps aside for the user's own module.

Python imports a module of this name at its start. Afterwards the path is as it would be without us.
"""

import os
import sys

FRAMEWORKS = ("torch", "jax", "tensorflow")
VARIABLE = "GPUTEL_INSIDE_AT"  # <level>:<folder>
OLDEST = (3, 8)


class FrameworkFinder(object):
    """Finds nothing: at the first import of a framework it starts the listener and takes itself away."""

    def __init__(self, here, folder):
        # type: (str, str) -> None
        self._here, self._folder = here, folder

    def find_spec(self, name, path=None, target=None):
        # type: (str, object, object) -> object
        if name not in FRAMEWORKS:
            return None
        try:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            self._start()
        except Exception as error:  # the training must not notice
            self._note(error)
        return _spec_from_others(name, path, target)

    def _start(self):
        # type: () -> None
        from importlib import util

        spec = util.spec_from_file_location("_gputel_inside", os.path.join(self._here, "_gputel_inside.py"))
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.start(self._folder)

    def _note(self, error):
        # type: (Exception) -> None
        """Keeps why there is no listener, in the file in which it keeps its own failure."""
        try:
            with open(os.path.join(self._folder, "%d.trouble" % os.getpid()), "x") as file:
                file.write("%s: %s\n" % (type(error).__name__, error))
        except Exception:
            pass


def _spec_from_others(name, path, target):
    # type: (str, object, object) -> object
    """Asks all other finders: the loop that asked us has lost its place in the list."""
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find else None
        if spec is not None:
            return spec
    return None


def _enter():
    # type: () -> None
    here = os.path.dirname(__file__)
    level, _, folder = os.environ.get(VARIABLE, "").partition(":")
    if sys.version_info >= OLDEST and level == "stacks" and os.path.isdir(folder):
        sys.meta_path.insert(0, FrameworkFinder(here, folder))  # type: ignore[arg-type]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    sys.path_importer_cache.pop(here, None)
    ourselves = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if getattr(error, "name", __name__) != __name__:
            raise
        sys.modules[__name__] = ourselves  # the import that runs us looks for it there


if __name__ == "sitecustomize":
    _enter()
