from collections.abc import Iterator
from typing import Any

import pytest

from gputel.telemetry.host.kernel_files import KernelFile
from gputel.telemetry.host.process_names import ProcessNames
from gputel.telemetry.host.processes import ProcessTree


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes what a recorder keeps to the end of its process: files of the kernel, and a thread."""
    made: list[KernelFile | ProcessNames | ProcessTree] = []
    for kind in (KernelFile, ProcessNames, ProcessTree):
        begin = kind.__init__

        def also_noted(self: Any, *words: Any, _begin: Any = begin, **named: Any) -> None:
            _begin(self, *words, **named)
            made.append(self)

        monkeypatch.setattr(kind, "__init__", also_noted)
    yield
    for each in made:
        each.close()
