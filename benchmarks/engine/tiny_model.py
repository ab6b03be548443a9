"""A model that is nearly nothing: a few small layers, a vocabulary of made-up words, no weights.

vLLM fills the weights at random (`--load-format dummy`); nothing is fetched from anywhere.
"""

from __future__ import annotations

import json
from pathlib import Path

VOCABULARY = 1024
SPECIAL = ("<begin>", "<end>", "<pad>")


def write(folder: Path, *, longest: int) -> Path:
    """Write the files of a model whose requests hold at most `longest` tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", _config(longest)),
        ("tokenizer.json", _tokenizer()),
        ("tokenizer_config.json", _tokenizer_config(longest)),
    ):
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    return folder


def _config(longest: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": 256,
        "intermediate_size": 512,
        # Enough for steps of about ten milliseconds: what surrounds them must not rule.
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": longest,
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        # In bfloat16, vLLM 0.32 on a processor with AMX dies of a first prompt of a few tokens.
        "torch_dtype": "float32",
    }


def _tokenizer() -> dict[str, object]:
    words = [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), VOCABULARY))]
    special = [
        {
            "id": number,
            "content": word,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for number, word in enumerate(SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: number for number, word in enumerate(words)},
            "unk_token": SPECIAL[-1],
        },
    }


def _tokenizer_config(longest: int) -> dict[str, object]:
    begin, end, pad = SPECIAL
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "bos_token": begin,
        "eos_token": end,
        "pad_token": pad,
    }
