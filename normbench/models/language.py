"""Language models by Hugging Face configuration, with random weights: nothing is downloaded.

`tiny` is 256 wide on 2 x 64 tokens, so that families share the shapes of their norms, and small in all that holds no norm.
`full` has the widths of one published model and two of its layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .recipe import Batch, Recipe, next_token_loss, same_token_loss

__all__ = ["RECIPES"]

LAYERS = 2
TINY_VOCABULARY = 1024


def _recipe(make: Any, inputs: Any, loss: Any, full: tuple[int, int], *, is_decoder: bool = False) -> Recipe:
    sizes = {"tiny": (2, 64), "full": full}
    return Recipe(sizes=sizes, make=make, inputs=inputs, output=_logits, loss=loss, extra="transformers", is_decoder=is_decoder)


def _logits(output: Any) -> Tensor:
    logits: Tensor = output.logits
    return logits


def _make(model: str, configuration: str, presets: Mapping[str, Mapping[str, Any]], preset: str) -> nn.Module:
    """Return the module of a class of `transformers` from the options of a preset; attention is PyTorch's own, and no cache is kept."""
    import transformers

    # The tokens that begin, end or fill a sequence have no bearing on a timing, and by default lie outside of a small vocabulary.
    tokens = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
    config = getattr(transformers, configuration)(**{**tokens, "use_cache": False, "attn_implementation": "sdpa", **presets[preset]})
    module: nn.Module = getattr(transformers, model)(config)
    return module


def _tokens(
    vocabularies: Mapping[str, int], names: tuple[str, ...], size: tuple[int, ...], preset: str, generator: torch.Generator
) -> Batch:
    return {name: torch.randint(vocabularies[preset], size, generator=generator) for name in names}


def _vocabularies(presets: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: options["vocab_size"] for name, options in presets.items()}


def _causal_loss(logits: Tensor, batch: Batch) -> Tensor:
    return next_token_loss(logits, batch["input_ids"])


def _masked_loss(logits: Tensor, batch: Batch) -> Tensor:
    return same_token_loss(logits, batch["input_ids"])


def _decoder_loss(logits: Tensor, batch: Batch) -> Tensor:
    return next_token_loss(logits, batch["decoder_input_ids"])


def _causal(model: str, configuration: str, tiny: Mapping[str, Any], full: Mapping[str, Any], size: tuple[int, int]) -> Recipe:
    presets = {"tiny": {"vocab_size": TINY_VOCABULARY, **tiny}, "full": full}
    inputs = partial(_tokens, _vocabularies(presets), ("input_ids",))
    return _recipe(partial(_make, model, configuration, presets), inputs, _causal_loss, size, is_decoder=True)


def _gpt(width: int, heads: int, tokens: int) -> dict[str, Any]:
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return {"n_embd": width, "n_head": heads, "n_layer": LAYERS, "n_positions": tokens, **dropout}


def _llama(width: int, inner: int, heads: int, key_heads: int, **more: Any) -> dict[str, Any]:
    sizes = {"hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads, "num_key_value_heads": key_heads}
    return {**sizes, "num_hidden_layers": LAYERS, **more}


def _bert() -> Recipe:
    def options(width: int, heads: int, inner: int, tokens: int, vocabulary: int) -> dict[str, Any]:
        sizes = {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": inner, "num_hidden_layers": LAYERS}
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return {"vocab_size": vocabulary, "max_position_embeddings": tokens, **sizes, **dropout}

    presets = {"tiny": options(256, 4, 1024, 64, TINY_VOCABULARY), "full": options(768, 12, 3072, 512, 30522)}
    inputs = partial(_tokens, _vocabularies(presets), ("input_ids",))
    return _recipe(partial(_make, "BertForMaskedLM", "BertConfig", presets), inputs, _masked_loss, (8, 512))


def _t5() -> Recipe:
    def options(width: int, heads: int, inner: int, vocabulary: int) -> dict[str, Any]:
        sizes = {"d_model": width, "d_kv": 64, "num_heads": heads, "d_ff": inner, "num_layers": LAYERS, "num_decoder_layers": LAYERS}
        return {"vocab_size": vocabulary, "dropout_rate": 0.0, **sizes}

    presets = {"tiny": options(256, 4, 1024, TINY_VOCABULARY), "full": options(1024, 16, 4096, 32128)}
    inputs = partial(_tokens, _vocabularies(presets), ("input_ids", "decoder_input_ids"))
    return _recipe(partial(_make, "T5ForConditionalGeneration", "T5Config", presets), inputs, _decoder_loss, (8, 512))


def _latent(width: int, inner: int, heads: int, query: int, key_value: int, head: int, rotary: int, **more: Any) -> dict[str, Any]:
    """Return the options of latent attention: ranks of the queries' and the keys' and values' latents, each with an RMSNorm of its own.

    The feed-forward is dense, as in the first layers of both models: where experts are chosen, a rounding of a norm can turn into
    another choice, and hide what the norm itself is off by.
    """
    ranks = {"q_lora_rank": query, "kv_lora_rank": key_value}
    sizes = {"qk_nope_head_dim": head, "v_head_dim": head, "qk_rope_head_dim": rotary, "first_k_dense_replace": LAYERS}
    return {**_llama(width, inner, heads, heads), **ranks, **sizes, **more}


_TINY_LATENT = _latent(256, 688, 4, 64, 32, 32, 16)

RECIPES: dict[str, Recipe] = {
    # Radford et al. 2019, the smallest: 768 wide.
    "gpt2": _causal("GPT2LMHeadModel", "GPT2Config", _gpt(256, 4, 64), {"vocab_size": 50257, **_gpt(768, 12, 1024)}, (8, 1024)),
    # GPT-3 175B, arXiv:2005.14165, table 2.1; its dense and locally banded attention alternate, here all of it is dense.
    "gpt3": _causal("GPT2LMHeadModel", "GPT2Config", _gpt(512, 8, 64), {"vocab_size": 50257, **_gpt(12288, 96, 2048)}, (1, 2048)),
    # BERT base, arXiv:1810.04805, section 3.
    "bert": _bert(),
    # T5 large, arXiv:1910.10683, section 3.7.
    "t5": _t5(),
    # LLaMA 7B, arXiv:2302.13971, table 2.
    "llama": _causal(
        "LlamaForCausalLM", "LlamaConfig", _llama(256, 688, 4, 4), {"vocab_size": 32000, **_llama(4096, 11008, 32, 32)}, (2, 2048)
    ),
    # Qwen2 7B, arXiv:2407.10671, table 1.
    "qwen2": _causal(
        "Qwen2ForCausalLM", "Qwen2Config", _llama(256, 688, 4, 2), {"vocab_size": 152064, **_llama(3584, 18944, 28, 4)}, (1, 2048)
    ),
    # Qwen3 8B, arXiv:2505.09388, table 1, and its configuration.
    "qwen3": _causal(
        "Qwen3ForCausalLM",
        "Qwen3Config",
        _llama(256, 688, 4, 2, head_dim=64),
        {"vocab_size": 151936, **_llama(4096, 12288, 32, 8, head_dim=128)},
        (1, 2048),
    ),
    # DeepSeek-V2, arXiv:2405.04434, section 3.1.2.
    "deepseek_v2": _causal(
        "DeepseekV2ForCausalLM",
        "DeepseekV2Config",
        _TINY_LATENT,
        {"vocab_size": 102400, **_latent(5120, 12288, 128, 1536, 512, 128, 64)},
        (1, 2048),
    ),
    # DeepSeek-V3, arXiv:2412.19437, section 4.2. The module that predicts further tokens is left out.
    "deepseek_v3": _causal(
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {**_TINY_LATENT, "num_mtp_layers": 0},
        {"vocab_size": 129280, **_latent(7168, 18432, 128, 1536, 512, 128, 64, num_mtp_layers=0)},
        (1, 2048),
    ),
}
