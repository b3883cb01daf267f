"""k-means against scikit-learn, on its digits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from examples.kmeans import kmeans


@pytest.mark.parametrize("clusters", [2, 10])
def test_digits(run, clusters):
    x = load_digits().data[: run.size(150, 20)]
    model = KMeans(clusters, init=x[:clusters], n_init=1, tol=0, max_iter=300, algorithm="lloyd").fit(x)
    centre, label = x[:clusters].copy(), np.full(len(x), 77)
    iterations, inertia = run(kmeans, x, centre, label, 300)
    np.testing.assert_array_equal(label, model.labels_)
    np.testing.assert_allclose(centre, model.cluster_centers_, atol=1e-10)
    assert inertia == pytest.approx(model.inertia_)
    assert iterations == model.n_iter_
    assert iterations > 1


def test_a_cluster_that_nobody_is_near_stays_where_it_is(run):
    x = np.array([[0.0, 0.0], [1.0, 0.0], [10.0, 0.0]])
    centre, label = np.array([[0.0, 0.0], [9.0, 1.0], [500.0, 500.0]]), np.full(3, 77)
    iterations, inertia = run(kmeans, x, centre, label, 10)
    assert label.tolist() == [0, 0, 1]
    assert centre.tolist() == [[0.5, 0], [10, 0], [500, 500]]
    assert (iterations, inertia) == (2, 0.5)
