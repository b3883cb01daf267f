"""``run``: each test of a program runs it as plain Python, and on each backend of this process."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Rig, backends


class Way:
    """One way to run a kernel: ``run(kernel, *args)`` gives what it returns, and NumPy arguments hold what it wrote."""

    def __init__(self, name: str, kernels: dict[Any, Any]) -> None:
        self.name = name
        self._kernels = kernels

    def size(self, most: int, simulated: int) -> int:
        """An extent: ``most``, but ``simulated`` on the simulator, where each thread is slow."""
        return simulated if self.name == "sim" else most

    def tolerance(self, fine: float, simulated: float) -> float:
        """A tolerance to stop at: ``fine``, but ``simulated`` on the simulator, where each iteration is slow."""
        return simulated if self.name == "sim" else fine

    def __call__(self, kernel: Any, *args: Any) -> Any:
        """Run it."""
        if self.name == "python":
            return kernel.reference(*args)
        rig = Rig(self.name)
        if (kernel, self.name) not in self._kernels:
            self._kernels[kernel, self.name] = rig.kernel(kernel.__wrapped__)
        here = self._kernels[kernel, self.name]
        returned = []
        rig.run(lambda *given: returned.append(here(*given)), *args)
        return returned[0]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Plain Python first: a program that is wrong there is wrong everywhere."""
    if "run" in metafunc.fixturenames:
        metafunc.parametrize("run", ["python", *backends()], indirect=True)


@pytest.fixture(scope="session")
def kernels() -> dict[Any, Any]:
    """The kernels of this session by program and backend: each is compiled once for all its tests."""
    return {}


@pytest.fixture
def run(request: pytest.FixtureRequest, kernels: dict[Any, Any]) -> Way:
    """Run kernels one way: ``"python"``, ``"cpu"``, ``"cuda"`` or ``"sim"``."""
    return Way(request.param, kernels)
