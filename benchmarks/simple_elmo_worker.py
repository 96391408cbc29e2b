"""simple_elmo as a process that answers: it runs in an environment of its own, with TensorFlow.

    python simple_elmo_worker.py MODEL_FOLDER BATCH

Each line on standard input is a JSON list: sentences as lists of words, and where to write their
layers, or null. The answer is the seconds it took. The state is set to zeros before each.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf
from simple_elmo import ElmoModel
from simple_elmo.elmo import weight_layers


def main(folder: str, batch: int) -> None:
    """Load the model, say so, then answer."""
    model: Any = ElmoModel()
    logging.disable(logging.INFO)
    model.load(folder, max_batch_size=batch)
    # With a session of ours the graph is built once, and not in each call.
    session = tf.compat.v1.Session()
    model.elmo_sentence_input = weight_layers(
        "input", model.sentence_embeddings_op, use_layers="all"
    )
    fresh = tf.compat.v1.global_variables_initializer()
    answer({"tensorflow": tf.__version__})
    for line in sys.stdin:
        sentences, path = json.loads(line)
        session.run(fresh)
        started = time.perf_counter()
        layers = model.get_elmo_vectors(sentences, warmup=False, layers="all", session=session)
        seconds = time.perf_counter() - started
        if path is not None:
            np.save(path, layers)
        answer({"seconds": seconds})


def answer(content: dict[str, Any]) -> None:
    """Write one line."""
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
