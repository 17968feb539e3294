"""A package `torch` of a few lines, with the names to which the hooks of steps are tied."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "__init__.py": """
import torch.autograd, torch.compiler, torch.optim, torch.utils.data.dataloader
__version__ = "small"
_gradients = [True]
def is_grad_enabled():
    return _gradients[0]
class no_grad:
    def __enter__(self):
        _gradients[0] = False
    def __exit__(self, *_):
        _gradients[0] = True
""",
    "compiler.py": "def is_dynamo_compiling():\n    return False\n",
    "autograd.py": """
def _engine_run_backward(work):
    return work()
def backward(work=lambda: None):
    return _engine_run_backward(work)
""",
    "optim/__init__.py": "from torch.optim.optimizer import Optimizer\ndel optimizer\n",
    "optim/optimizer.py": """
_before, _after = [], []
register_optimizer_step_pre_hook, register_optimizer_step_post_hook = _before.append, _after.append
class Optimizer:
    def step(self, closure=None):
        args = () if closure is None else (closure,)
        for hook in list(_before):
            hook(self, (self, *args), {})
        if closure is not None:
            closure()
        for hook in list(_after):
            hook(self, (self, *args), {})
""",
    "utils/__init__.py": "",
    "utils/data/__init__.py": "",
    "utils/data/dataloader.py": """
class _BaseDataLoaderIter:
    def __init__(self, data):
        self.data = iter(data)
    def __iter__(self):
        return self
    def __next__(self):
        return next(self.data)
class DataLoader:
    def __init__(self, data):
        self.data = data
    def __iter__(self):
        return _BaseDataLoaderIter(self.data)
""",
}


def write(folder: Path) -> None:
    """Makes the package in a folder, in place of an empty one."""
    (folder / "torch.py").unlink(missing_ok=True)
    for name, text in FILES.items():
        path = folder / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
