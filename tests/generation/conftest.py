"""Tiny random Llamas and their tokenizer, made on the spot."""

import pytest
import torch

TEMPLATE = "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}<s>"
TEXT = "the quick brown fox jumps over the lazy dog and plays guitar in the music room every evening"


def learned_pairs(texts, vocab_size, special):
    """Byte-level pairs learned from texts, so that tokens span several characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def build_model(folder, hidden_size=48, window=256):
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = learned_pairs([TEXT] * 3, 300, ["<s>", "</s>", "<END>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    fast.add_special_tokens({"additional_special_tokens": ["<END>"]})
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    sizes = {"vocab_size": len(fast), "hidden_size": hidden_size, "intermediate_size": 2 * hidden_size}
    layers = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.4}
    tokens = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "tie_word_embeddings": False}
    config = LlamaConfig(**sizes, **layers, **tokens, max_position_embeddings=window)
    torch.manual_seed(7)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory, one_thread):
    """Folder of the model; its window is 256 tokens."""
    return str(build_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="session")
def wide(tmp_path_factory, one_thread):
    """Folder of a model whose layers are multiples of 32 wide, as a CPU's 4-bit kernels need them."""
    return str(build_model(tmp_path_factory.mktemp("wide"), hidden_size=64))
