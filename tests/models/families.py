"""What is known of the norms of every network's tiny preset, from the papers and the classes: two layers each, of each stack."""

PLACES = {
    # Two norms a layer and a final one.
    "gpt2": {"pre": 4, "final": 1},
    "gpt3": {"pre": 4, "final": 1},
    # One behind the embeddings, two a layer, and one in the head behind its linear map and GELU.
    "bert": {"embedding": 1, "post": 4, "head": 1},
    # Two in a layer of the encoder, three in one of the decoder, a final one for each.
    "t5": {"pre": 10, "final": 2},
    "llama": {"pre": 4, "final": 1},
    "qwen2": {"pre": 4, "final": 1},
    # LLaMA's, and one for queries and one for keys in each layer.
    "qwen3": {"pre": 4, "qk": 4, "final": 1},
    # LLaMA's, and one for each of the two latents in each layer.
    "deepseek_v2": {"pre": 4, "latent": 4, "final": 1},
    "deepseek_v3": {"pre": 4, "latent": 4, "final": 1},
    "vit": {"pre": 4, "qk": 4, "final": 1},
    # Two in a layer of the encoder, three in one of the decoder.
    "transformer": {"post": 10},
    # Four in each of three cells.
    "gru": {"inner": 12},
    # One for each of nine convolutions.
    "cnn": {"inner": 9},
}
"""How many norms stand in each place."""
