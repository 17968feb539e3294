"""Micro-batches for one rank, made ahead of time: the run's position in, tensors on the device out.

The position is a number of rows, the same for all ranks: micro-batch m of a step goes to rank m modulo the
number of ranks, so that another number of ranks reads the same rows in the same steps.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

import numpy as np
import torch
from torch import Tensor

from gputel.trainer.data.mixture import Mixture
from gputel.trainer.data.source import Source

AHEAD = 3


@final
class Feed:
    def __init__(
        self,
        rows: Source | Mixture,
        position: int,
        batch: int,
        rank: int,
        ranks: int,
        device: torch.device,
    ) -> None:
        self.rows, self.batch, self.stride, self.device = rows, batch, batch * ranks, device
        self.next_row = position + rank * batch
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self.ready: deque[Future[Tensor]] = deque()
        for _ in range(AHEAD):
            self._order()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(cancel_futures=True)

    def next(self) -> tuple[Tensor, Tensor]:
        tokens = self.ready.popleft().result()
        self._order()
        tokens = tokens.to(self.device, non_blocking=True).long()
        return tokens[:, :-1], tokens[:, 1:]

    def _order(self) -> None:
        self.ready.append(self.pool.submit(self._made, self.next_row))
        self.next_row += self.stride

    def _made(self, first: int) -> Tensor:
        batch = np.stack([self.rows.row(first + i) for i in range(self.batch)]).astype(np.int32)
        tokens = torch.from_numpy(batch)
        return tokens.pin_memory() if self.device.type == "cuda" else tokens
