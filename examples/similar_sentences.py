"""Which sentence is nearest to a question? Vectors of the shipped model, and cosine similarity."""

from elmo import Embedder

embedder = Embedder.from_pretrained()
sentences = [
    "Oil prices fell on Monday .",
    "The striker scored twice in the final .",
    "The company released a new phone .",
]
question = "The price of crude went down ."
similarities = embedder.similarity(embedder.encode(question), embedder.encode(sentences))[0]
for similarity, sentence in sorted(zip(similarities, sentences, strict=True), reverse=True):
    print(f"{similarity:.3f}  {sentence}")
