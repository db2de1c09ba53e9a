"""A model in the files that OpenLLaMA comes in: a SentencePiece tokenizer and pickled weights in float16."""

import json

import pytest
import sentencepiece
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from lib.generation.finetune import Training, finetune_language_model
from lib.generation.local import LocalModel, load_tokenizer

TEXT = "the quick brown fox jumps over the lazy dog and plays  guitar 42 times in the music room every evening"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openllama")
    (folder / "text").write_text("\n".join([TEXT] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        hard_vocab_limit=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    size = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model")).vocab_size()
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=size, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False, **shape)
    torch.manual_seed(1)
    torch.save(LlamaForCausalLM(config).half().state_dict(), folder / "pytorch_model.bin")
    config.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("text", [TEXT, "two  spaces\nand a line, 1984", "naïve 日本", "x(y=[1, 2])"])
def test_tokens_are_those_of_sentencepiece(folder, text):
    tokenizer, _ = load_tokenizer(folder)
    expected = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model").encode(text)
    ids = tokenizer(text)["input_ids"]
    assert ids == [1, *expected]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parametrize("quantization", ["none", "nf4"])
def test_it_is_read_trained_and_asked(folder, tmp_path, quantization):
    settings = {"dtype": "bfloat16", "threads": 1, "quantization": quantization}
    curve = finetune_language_model(
        folder, ["the quick", "the lazy"] * 8, ["fox", "dog"] * 8, tmp_path / "a", Training(), **settings
    )
    assert len(curve) == 2
    assert len(LocalModel(folder, tmp_path / "a", **settings).generate(["the quick", "the"], max_new_tokens=4)) == 2
