"""Lloyd's k-means: sums by colliding ``+=``, and a loop that ends when no point changes its cluster.

python -m examples.kmeans
"""

from __future__ import annotations

import math

import numpy as np

import qgraph


@qgraph.func
def distance2(x, i, centre, c):
    """The squared distance of point ``i`` from centre ``c``."""
    total = 0.0
    for f in range(x.shape[1]):
        total += (x[i, f] - centre[c, f]) ** 2
    return total


@qgraph.kernel
def kmeans(x, centre, label, limit):
    """Move each centre to the mean of the points nearest to it until nothing changes; returns iterations and inertia.

    ``x`` (points, features) is read, ``centre`` (clusters, features) holds the first centres and gets the last, ``label``
    (points, integers) gets the cluster of each point. Inertia is the sum of the squared distances to the own centre.
    """
    points, features = x.shape
    clusters = centre.shape[0]
    total = qgraph.empty((clusters, features), x.dtype)
    count = qgraph.empty(clusters, np.int64)

    label[:] = -1
    iterations = 0
    changed = True
    while changed and iterations < limit:
        changed = False
        for i in range(points):
            nearest = 0
            least = math.inf
            for c in range(clusters):
                distance = distance2(x, i, centre, c)
                if distance < least:
                    least = distance
                    nearest = c
            if label[i] != nearest:
                label[i] = nearest
                changed = True
        total[:] = 0.0
        count[:] = 0
        for i in range(points):
            count[label[i]] += 1
        for i, f in qgraph.ndrange(points, features):
            total[label[i], f] += x[i, f]
        for c, f in qgraph.ndrange(clusters, features):
            if count[c] > 0:
                centre[c, f] = total[c, f] / count[c]
        iterations += 1

    inertia = 0.0
    for i in range(points):
        inertia += distance2(x, i, centre, label[i])
    return iterations, inertia


def main() -> None:
    """Cluster scikit-learn's digits, from the first ten pictures."""
    from sklearn.datasets import load_digits

    x = load_digits().data
    label = qgraph.asarray(np.zeros(len(x), np.int64))
    iterations, inertia = kmeans(qgraph.asarray(x), qgraph.asarray(x[:10].copy()), label, 300)
    print(f"k-means: {len(x)} digits, {iterations} iterations, inertia {inertia:.0f}, path {kmeans.last_launch.path}")


if __name__ == "__main__":
    main()
