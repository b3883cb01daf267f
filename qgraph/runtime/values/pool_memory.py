"""The memory of a pool: its blocks, what a refusal says, and the pool that is current."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from contextvars import ContextVar

from qgraph import forks
from qgraph.errors import PoolError
from qgraph.runtime.values.pool_blocks import Blocks, Order


class PoolMemory(ABC):
    """Blocks of one allocation, which lives as long as this object: whoever has a block holds it. Threads may share it.

    Attributes:
        pointer: the address of the first byte.
        sealed: whether every allocation is refused.
    """

    def __init__(self, nbytes: int, pointer: int) -> None:
        self.pointer = pointer
        self.sealed = False
        self._blocks = Blocks(nbytes)
        self._lock = forks.rlock()
        # Finalizers may run on a thread that holds the lock.
        self._returned: deque[tuple[int, Order | None]] = deque()

    @property
    def nbytes(self) -> int:
        """The bytes of all blocks."""
        return self._blocks.nbytes

    @property
    def used(self) -> int:
        """The bytes of the blocks that are taken."""
        with self._lock:
            self._take_back()
            return self._blocks.used

    def take(self, nbytes: int, stream: int | None = None) -> tuple[int, Order | None]:
        """The address of ``nbytes`` bytes for work of ``stream`` (None: of any), and the order in which to give it back.

        Raises:
            PoolError: the pool is sealed, or has no such block.
        """
        if nbytes < 0:
            raise PoolError(f"{nbytes} bytes were asked of a pool", hint="ask for 0 or more")
        with self._lock:
            self._take_back()
            if self.sealed:
                raise self._refusal(nbytes, None, "it is sealed", "unseal() it, or allocate before seal()")
            order = self._order(stream)
            offset = self._blocks.take(nbytes, order)
            if offset is None:
                self._settle(order)
                offset = self._blocks.take(nbytes, order)
            if offset is None:
                raise self._refusal(nbytes, order, *self._why())
            return self.pointer + offset, order

    def give(self, pointer: int, order: Order | None) -> None:
        """The block at ``pointer`` is free again. It takes no lock and waits for nothing."""
        self._returned.append((pointer - self.pointer, order))

    def _take_back(self) -> None:
        while self._returned:
            self._blocks.give(*self._returned.popleft())

    def _refusal(self, nbytes: int, order: Order | None, reason: str, hint: str) -> PoolError:
        blocks = self._blocks
        return PoolError(
            f"{nbytes} bytes were asked of a pool of {blocks.nbytes} bytes, and {reason}: {blocks.free} bytes are free, "
            f"{blocks.largest(order)} of them in the largest block that may be had",
            hint=hint,
        )

    def _why(self) -> tuple[str, str]:
        """Why no block was found, and what to do."""
        return "no block is large enough", "make a larger pool, or free what lies in this one"

    @abstractmethod
    def _order(self, stream: int | None) -> Order | None:
        """What a block that is taken now is bound to."""

    def settle(self) -> None:
        """Wait for what may still use memory that was freed."""
        with self._lock:
            self._take_back()
            self._settle(None)

    @abstractmethod
    def _settle(self, order: Order | None) -> None:
        """Wait for what may be waited for, so that there are more blocks."""


class HostPoolMemory(PoolMemory):
    """On the host nothing goes on with memory that was freed.

    Attributes:
        owner: what the memory belongs to.
    """

    owner: object = None

    def _order(self, stream: int | None) -> Order | None:
        return None

    def _settle(self, order: Order | None) -> None:
        """There is nothing to wait for."""


CURRENT_POOL: ContextVar[PoolMemory | None] = ContextVar("qgraph_pool", default=None)
