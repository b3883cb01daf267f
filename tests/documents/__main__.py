"""Write the pictures of plans and the pages of errors from what qgraph does now: ``python -m tests.documents``."""

from tests.documents import generated

for path, text in generated.files():
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
