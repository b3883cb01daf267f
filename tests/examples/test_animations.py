"""Moving pictures: every scene runs, and those of the documents move, are small, and have their command."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from examples.animations import scenes
from examples.animations.__main__ import HOME, main
from examples.animations.canvas import Curve, Frame, drawn

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")

FEW = {
    "fluid": {"n": 16},
    "waves": {"n": 24},
    "condensate": {"side": 16},
    "particles": {"electrons": 2560},
    "graph": {"cells": 8},
}


@pytest.mark.needs("speed")
@pytest.mark.parametrize("name", FEW)
def test_a_scene_moves(name):
    frames = list(itertools.islice(scenes.SCENES[name](frames=4, **FEW[name]), 4))
    assert len(frames) == 4
    for each in frames:
        assert each.picture.dtype == np.uint8
        assert each.picture.shape[2] == 3
    assert len({each.caption for each in frames}) == 4
    for one, following in itertools.pairwise(frames):
        assert one.picture.shape == following.picture.shape
        assert (one.picture != following.picture).any()


@pytest.mark.needs("speed")
def test_the_photograph_ends_restored(tmp_path, capsys):
    pytest.importorskip("skimage")
    first, *_, last = scenes.photograph(frames=3, tolerance=1e-3)
    assert first.caption.startswith("sweep 0 ")
    assert first.curve.values == first.curve.values[:1]
    assert len(last.curve.values) == last.curve.most
    assert last.curve.values[-1] == pytest.approx(last.curve.least)
    assert last.curve.values[-1] < 1e-3 <= last.curve.values[-2]
    main(["graph", "--frames", "2", "--out", str(tmp_path)])
    assert re.search(r"graph: 2 frames, \d+ kB", capsys.readouterr().out)
    with Image.open(tmp_path / "graph.webp") as picture:
        assert picture.n_frames == 2


def test_a_name_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "there is no nothing: there are photograph, fluid" in capsys.readouterr().err


def test_a_curve_stands_beside_its_picture():
    picture = np.zeros((20, 30, 3), np.uint8)
    alone = drawn(Frame(picture, "one"), 60)
    both = drawn(Frame(picture, "one", Curve([1.0, 0.1, 0.01], 9, 1e-3, "change")), 60)
    assert both.height == alone.height
    assert both.width == alone.width + 45
    beside = np.asarray(both)[:, alone.width :].reshape(-1, 3)
    assert len(np.unique(beside, axis=0)) > 3


def test_those_of_the_documents_are_small_and_have_their_command():
    gallery = (HOME / "docs" / "guide" / "gallery.md").read_text()
    readme = (HOME / "README.md").read_text()
    for name in scenes.SCENES:
        file = HOME / "docs" / "images" / f"{name}.webp"
        assert file.stat().st_size <= 600_000
        with Image.open(file) as picture:
            assert picture.n_frames > 20
        assert f"](../images/{name}.webp)" in gallery
        assert f"`python -m examples.animations {name}`" in gallery
        assert f"docs/images/{name}.webp" in readme
