"""PTX texts to one cubin."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from qgraph.errors import BackendError
from qgraph.lowering.ptx import link
from tests.processes import printed_by

PTX = """.version 7.0
.target sm_80
.address_size 64
.visible .entry {name}() {{ ret; }}
"""


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_several_texts_become_one_cubin(capability):
    cubin = link.link([PTX.format(name="first"), PTX.format(name="second")], capability)
    assert cubin[:4] == b"\x7fELF"
    assert b"first" in cubin
    assert b"second" in cubin


def test_the_device_runtime_is_found():
    path = link.device_runtime_path()
    assert path is not None
    assert path.endswith("libcudadevrt.a")


def test_the_device_runtime_of_a_toolkit_that_the_environment_names(tmp_path):
    wheel = Path(link.device_runtime_path() or "")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        folder = tmp_path / name / "lib64"
        folder.mkdir(parents=True)
        (folder / wheel.name).symlink_to(wheel)
    program = """
        from cuda.pathfinder._static_libs import find_static_lib
        find_static_lib._FindStaticLib.try_site_packages = lambda self: None
        from qgraph.lowering.ptx.link import device_runtime_path
        print(device_runtime_path())
        """
    for name in ("CUDA_HOME", "CUDA_PATH"):
        names = {"CUDA_HOME": "", "CUDA_PATH": "", "CONDA_PREFIX": "", name: str(tmp_path / name)}
        printed = Path(printed_by(program, tmp_path, **names).strip())
        assert printed.resolve() == wheel.resolve()


def test_what_is_not_ptx_is_refused():
    with pytest.raises(BackendError, match="do not link"):
        link.link(["this is not PTX"], (9, 0))


def test_a_missing_linker_says_what_to_install(monkeypatch):
    from cuda import pathfinder

    def missing(name):
        raise pathfinder.DynamicLibNotFoundError(name)

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", missing)
    with pytest.raises(BackendError, match=r"pip install qgraph-jit\[cu13\]"):
        link.link([PTX.format(name="first")], (9, 0))


def test_a_missing_toolkit_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(BackendError, match=r"\[cu12\]"):
        link.link([PTX.format(name="first")], (9, 0))


def test_a_missing_device_runtime_is_said(monkeypatch):
    monkeypatch.setattr(link, "device_runtime_path", lambda: None)
    text = ".extern .func cudaGraphSetConditional(.param .b64 a, .param .b32 b);\n"
    calling = PTX.format(name="first").replace(".visible", text + ".visible")
    with pytest.raises(BackendError, match="libcudadevrt"):
        link.link([calling], (9, 0))
    assert link.link([calling], (9, 0), device_runtime=False)
