"""From a model's layers to vectors: mixes of layers, texts as vectors, files of them."""
