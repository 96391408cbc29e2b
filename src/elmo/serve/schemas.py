"""What routes accept and return, as pydantic models; unknown fields and wrong types are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(description="A text as it was written.")]
TextOrWords = str | list[str]
LayerName = Literal["mix", "top", "average", "all"] | Annotated[int, Field(ge=0, le=64)]


class Asked(BaseModel):
    """A request: nothing that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True)


class EmbeddingRequest(BaseModel):
    """OpenAI's request for embeddings."""

    model_config = ConfigDict(extra="ignore", strict=True)
    input: str | list[str] | list[int] | list[list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class EmbedRequest(Asked):
    """Texts to vectors, as `Embedder.encode`."""

    texts: list[TextOrWords]
    model: str | None = None
    output: Literal["pooled", "tokens"] = "pooled"
    layer: LayerName = "mix"
    pooling: str = Field("mean", max_length=40)
    normalize: bool = False
    encoding_format: Literal["float", "base64"] = "float"
    truncate: bool = False


class TokenizeRequest(Asked):
    """A text, to see its words as the model does."""

    text: TextOrWords
    model: str | None = None


class ClassifyRequest(Asked):
    """Texts to labels, as `TextClassifier.predict_proba`; one text can be explained."""

    texts: list[TextOrWords]
    explain: bool = False
    label: str | None = None
    permutations: int = Field(32, ge=2, le=256, multiple_of=2)
    truncate: bool = False


class ScoreRequest(Asked):
    """Texts to surprisal, as `elmo.explore.sentences.surprisal`."""

    texts: list[TextOrWords]
    model: str | None = None
    alternatives: int = Field(0, ge=0, le=20)


class PredictRequest(Asked):
    """A text with blanks, as `LanguageModel.fill`."""

    text: TextOrWords
    model: str | None = None
    k: int = Field(10, ge=1, le=200)
    blank: str = Field("___", min_length=1, max_length=20)


class SimilarityRequest(Asked):
    """Two sentences, as `elmo.explore.sentences.similarities`."""

    left: TextOrWords
    right: TextOrWords
    model: str | None = None


class NeighboursRequest(Asked):
    """A word of a sentence, as `CorpusIndex.nearest`."""

    sentence: TextOrWords
    position: int = Field(ge=0)
    k: int = Field(10, ge=1, le=100)
    distinct: Literal["phrase", "word", "none"] = "phrase"
    same_word: bool = False


class OccurrencesRequest(Asked):
    """A word, as `elmo.explore.word_map.word_map`."""

    word: str = Field(min_length=1, max_length=200)
    limit: int = Field(2000, ge=1, le=5000)
    clusters: int | None = Field(None, ge=1, le=20)
    ignore_case: bool = True
    components: int = Field(0, ge=0, le=50)


class Problem(BaseModel):
    """RFC 9457."""

    title: str
    status: int
    detail: str
    param: str | None = None


class OpenAIError(BaseModel):
    """OpenAI's error."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(BaseModel):
    """OpenAI's error answer."""

    error: OpenAIError


class Embedding(BaseModel):
    """One vector."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Words read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingAnswer(BaseModel):
    """OpenAI's answer."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class ModelEntry(BaseModel):
    """A model in OpenAI's list."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """OpenAI's list of models."""

    object: Literal["list"]
    data: list[ModelEntry]


class EmbedAnswer(BaseModel):
    """Vectors; nested lists, or base64 of little-endian float32 with their shapes."""

    model: str
    dim: int
    words: list[list[str]] | None
    vectors: list[Any]
    shapes: list[list[int]]


class Word(BaseModel):
    """A word and whether the model knows it."""

    word: str
    known: bool
    count: int
    rank: int | None


class TokenizeAnswer(BaseModel):
    """Words of a text."""

    model: str
    words: list[Word]


class Classified(BaseModel):
    """A label with the probabilities of all."""

    label: str
    probabilities: dict[str, float]


class Explained(BaseModel):
    """`Contributions` of a text."""

    words: list[str]
    label: str
    base: float
    values: list[float]
    errors: list[float]
    log_probability: float


class ClassifyAnswer(BaseModel):
    """Labels of texts."""

    labels: list[str]
    results: list[Classified]
    contributions: Explained | None


class CandidateAnswer(BaseModel):
    """A word and its probability."""

    word: str
    probability: float


class WordBits(BaseModel):
    """Surprisal of a word in bits."""

    word: str
    known: bool
    forward: float
    backward: float
    both: float
    forward_best: list[CandidateAnswer]
    backward_best: list[CandidateAnswer]
    both_best: list[CandidateAnswer]


class ScoredText(BaseModel):
    """Surprisal of a text."""

    words: list[WordBits]


class ScoreAnswer(BaseModel):
    """Surprisal of texts."""

    model: str
    texts: list[ScoredText]


class BlankAnswer(BaseModel):
    """Words for a blank."""

    position: int
    forward: list[CandidateAnswer]
    backward: list[CandidateAnswer]
    both: list[CandidateAnswer]


class PredictAnswer(BaseModel):
    """A text with its blanks filled, and other words for them."""

    model: str
    words: list[str]
    blanks: list[BlankAnswer]


class SimilarityAnswer(BaseModel):
    """Cosines of all words, by layer."""

    model: str
    left: list[str]
    right: list[str]
    centre: str
    raw: dict[str, list[list[float]]]
    centred: dict[str, list[list[float]]]


class OccurrenceAnswer(BaseModel):
    """A word in the words around it."""

    word: str
    words: list[str]
    position: int
    text_number: int
    label: str | None
    sense: str | None
    similarity: float | None


class NeighboursAnswer(BaseModel):
    """Neighbours of a word, by layer."""

    model: str
    corpus: str
    words: list[str]
    position: int
    layers: dict[str, list[OccurrenceAnswer]]


class OccurrencesAnswer(BaseModel):
    """Occurrences of a word as points, by layer."""

    model: str
    corpus: str
    word: str
    total: int
    occurrences: list[OccurrenceAnswer]
    layers: list[str]
    points: dict[str, list[list[float]]]
    explained: dict[str, float]
    clusters: list[int]
    agreement: dict[str, float]
    chance: float | None
    components: dict[str, list[list[float]]]


class Status(BaseModel):
    """Whether the server is alive or ready."""

    status: str
