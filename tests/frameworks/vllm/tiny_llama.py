"""Writes a llama of two layers with random weights, and a tokenizer of bytes: `PYTHON -m tiny_llama FOLDER` in an environment with transformers."""

import pathlib
import sys

import torch
from tokenizers import (  # type: ignore[import-not-found]
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
)
from transformers import (  # type: ignore[import-not-found]
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)


def write(folder: pathlib.Path) -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: at for at, name in enumerate(["<unk>", "<s>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
