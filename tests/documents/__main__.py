"""Write the pictures of plans and the pages of errors from what qgraph does now: ``python -m tests.documents``."""

from tests.documents import pictures

for page in pictures.pages():
    for path, svg in pictures.drawn(page):
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg)
