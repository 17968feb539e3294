"""Waits in every Python of a recorded command for `import torch`, and steps aside for the user's own module.

Python imports a module of this name at its start. Afterwards the path is as it would be without us.
"""

import os
import sys

FRAMEWORKS = ("torch", "jax", "tensorflow")
VARIABLE = "GPUTEL_INSIDE_AT"  # <level>:<folder>
LEVELS = ("stacks", "steps")
OLDEST = (3, 8)


class FrameworkFinder(object):
    """Finds nothing: at the first look for a framework it starts the listener, and then takes itself away.

    Where steps are recorded it stays until torch is imported: programs look for torch before they do so.
    """

    def __init__(self, here, level, folder):
        # type: (str, str, str) -> None
        self._here, self._level, self._folder = here, level, folder
        self._inside = None  # type: object

    def find_spec(self, name, path=None, target=None):
        # type: (str, object, object) -> object
        if name not in FRAMEWORKS:
            return None
        self._attempt(self._listen)
        spec = self._spec_from_others(name, path, target)
        if self._level == "steps" and name == "torch" and spec is not None:
            self._attempt(lambda: self._await(spec.loader))  # type: ignore[attr-defined]
        return spec

    def _listen(self):
        # type: () -> None
        if self._level != "steps":
            sys.meta_path.remove(self)  # type: ignore[arg-type]
        if self._inside is None:
            self._inside = self._load("_gputel_inside")
            self._inside.start(self._folder)  # type: ignore[attr-defined]

    def _await(self, loader):
        # type: (object) -> None
        """Records steps once this loader has executed torch."""
        if "exec_module" in vars(loader):
            return
        execute = loader.exec_module  # type: ignore[attr-defined]

        def exec_module(module):
            # type: (object) -> None
            vars(loader).pop("exec_module", None)
            self._attempt(lambda: sys.meta_path.remove(self))  # type: ignore[arg-type]
            try:
                execute(module)
            except BaseException as error:  # without this frame, from Python 3.11 on
                error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
                raise
            self._attempt(self._record_steps)

        loader.exec_module = exec_module  # type: ignore[attr-defined]

    def _record_steps(self):
        # type: () -> None
        self._load("_gputel_steps").start(self._folder, self._inside.place)  # type: ignore[attr-defined]

    def _load(self, name):
        # type: (str) -> object
        from importlib import util

        spec = util.spec_from_file_location(name, os.path.join(self._here, name + ".py"))
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def _attempt(self, act):
        # type: (object) -> None
        """Does something of ours; the training must not notice if it fails."""
        try:
            act()  # type: ignore[operator]
        except Exception as error:
            self._note(error)

    def _note(self, error):
        # type: (Exception) -> None
        """Keeps why there is no listener, in the file in which it keeps its own failure."""
        try:
            with open(os.path.join(self._folder, "%d.trouble" % os.getpid()), "x") as file:
                file.write("%s: %s\n" % (type(error).__name__, error))
        except Exception:
            pass

    def _spec_from_others(self, name, path, target):
        # type: (str, object, object) -> object
        """Asks all other finders: the loop that asked us may have lost its place in the list."""
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None) if finder is not self else None  # type: ignore[comparison-overlap]
            spec = find(name, path, target) if find else None
            if spec is not None:
                return spec
        return None


def _enter():
    # type: () -> None
    here = os.path.dirname(__file__)
    level, _, folder = os.environ.get(VARIABLE, "").partition(":")
    if sys.version_info >= OLDEST and level in LEVELS and os.path.isdir(folder):
        sys.meta_path.insert(0, FrameworkFinder(here, level, folder))  # type: ignore[arg-type]
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
