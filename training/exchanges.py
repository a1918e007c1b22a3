"""Embed the everyday messages that a model is shown: `python -m training.exchanges`."""

import numpy as np

from app.generation.everyday import VECTORS, read
from dragon.retrieval.embedder import Embedder


def main() -> None:
    np.save(VECTORS, Embedder.load().embed([each.message for each in read()]).astype(np.float16))


if __name__ == "__main__":
    main()
