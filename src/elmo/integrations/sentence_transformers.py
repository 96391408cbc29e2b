"""ELMo as a module of sentence-transformers, and through it in MTEB, BERTopic and the like.

    from sentence_transformers import SentenceTransformer
    from elmo.integrations.sentence_transformers import ElmoModule

    model = SentenceTransformer(modules=[ElmoModule()])
    model.encode("One sentence .")          # as any other sentence-transformers model
    model.save_pretrained("elmo-sentences")  # SentenceTransformer("elmo-sentences") loads it

`elmo convert MODEL FOLDER --to sentence-transformers` writes such a folder. It names this module,
which sentence-transformers imports only with `trust_remote_code=True`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from elmo.config import SHIPPED
from elmo.embed.config import EncodeConfig, Layer
from elmo.embed.embedder import Embedder
from elmo.errors import UserError
from elmo.files import read_json, write_json
from elmo.runtime import require_extra

if TYPE_CHECKING:
    Base = nn.Module
else:
    try:
        from sentence_transformers.sentence_transformer.modules import InputModule as Base
    except ModuleNotFoundError:  # the constructor says how to install it
        Base = nn.Module

SETTINGS = "elmo_config.json"
MODEL = "model"


class ElmoModule(Base):
    """Pooled vectors of texts, from a frozen biLM.

    Args:
        model: a model folder, or an `Embedder` with its mix; "default" ships with elmo.
        layer, pooling, normalize: as in `Embedder.encode`.
    """

    def __init__(
        self,
        model: Embedder | Path | str = SHIPPED,
        *,
        layer: Layer = "mix",
        pooling: str = "mean",
        normalize: bool = False,
    ) -> None:
        require_extra("sentence_transformers", "sentence-transformers")
        super().__init__()
        self.embedder = model if isinstance(model, Embedder) else Embedder.from_pretrained(model)
        self.settings = {"layer": layer, "pooling": pooling, "normalize": normalize}
        if layer == "all":
            raise UserError("layer: expected one vector per text; 'all' gives one per layer")
        self.config = EncodeConfig(layer=layer, pooling=pooling, normalize=normalize)
        self._encoder = self.embedder.encoder(self.config)
        self.bilm = self.embedder.model  # registered, so that .to(device) moves it
        self.bilm.requires_grad_(False)

    @property
    def max_seq_length(self) -> int | None:
        """None: texts of any length are read whole."""
        return None

    @property
    def tokenizer(self) -> Any:
        """The function that cuts a text into words."""
        return self.embedder.loaded.tokenize

    @property
    def modalities(self) -> list[Literal["text"]]:
        """What it reads."""
        return ["text"]

    def get_embedding_dimension(self) -> int:
        """Numbers per vector."""
        return self._encoder.dim

    get_sentence_embedding_dimension = get_embedding_dimension

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **_: Any
    ) -> dict[str, Any]:
        """Cut texts into words."""
        texts = [f"{prompt or ''}{text}" for text in inputs]
        words = [self.embedder.loaded.words(text) for text in texts]
        return {"words": words, "modality": "text"}

    tokenize = preprocess

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the vectors of the texts, (texts, dim)."""
        vectors = self._encoder.encode(features["words"])
        rows = [torch.from_numpy(vector) for vector in vectors]
        empty = torch.zeros(0, self._encoder.dim)
        stacked: Tensor = torch.stack(rows) if rows else empty
        features["sentence_embedding"] = stacked.to(self.embedder.model.device)
        return features

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the biLM and the settings to a folder."""
        folder = Path(output_path)
        folder.mkdir(parents=True, exist_ok=True)
        self.embedder.save_pretrained(folder / MODEL)
        write_json(folder / SETTINGS, self.settings)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **hub: Any) -> ElmoModule:
        """Read what `save` wrote, from a folder or the hub."""
        folder = Path(model_name_or_path) / subfolder
        if not folder.is_dir():
            snapshot = require_extra("huggingface_hub", "hub").snapshot_download
            names = ("token", "cache_folder", "revision", "local_files_only")
            known = {name: hub[name] for name in names if name in hub}
            known["cache_dir"] = known.pop("cache_folder", None)
            folder = Path(snapshot(model_name_or_path, **known)) / subfolder
        return cls(folder / MODEL, **read_json(folder / SETTINGS))
