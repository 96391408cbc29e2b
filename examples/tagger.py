"""ELMo under a network of your own: a tagger that learns the mix of layers with its weights."""

import torch
from torch import nn

from elmo import ElmoLayer

SENTENCES = ["the cat sees the dog .", "a fox likes birds .", "the bird hears a cat ."]
TAGS = [[0, 1, 2, 0, 1, 3], [0, 1, 2, 1, 3], [0, 1, 2, 0, 1, 3]]  # article, noun, verb, other


class Tagger(nn.Module):
    """Word vectors of ELMo, and a linear layer on top."""

    def __init__(self) -> None:
        super().__init__()
        self.elmo = ElmoLayer.from_pretrained(mix="trainable")
        self.linear = nn.Linear(self.elmo.output_dim, 4)

    def forward(self, sentences: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
        vectors, mask = self.elmo(sentences)
        return self.linear(vectors)[mask], mask


torch.manual_seed(0)
tagger = Tagger()
optimizer = torch.optim.AdamW((p for p in tagger.parameters() if p.requires_grad), lr=1e-2)
words = [sentence.split() for sentence in SENTENCES]
targets = torch.tensor([tag for tags in TAGS for tag in tags])
for _ in range(30):
    scores, _ = tagger(words)
    loss = nn.functional.cross_entropy(scores, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}, accuracy {(scores.argmax(1) == targets).float().mean():.2f}")
print(tagger.elmo.mix)
