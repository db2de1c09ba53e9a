"""Tiny models with random weights, made on the spot, the same on every machine: profile `smoke` runs every code path
with them, within minutes. Their answers and embeddings mean nothing."""

from __future__ import annotations

import fcntl
import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.workbook.artifacts import ROOT, atomic_folder

VOCABULARY, WINDOW = 2000, 8192
LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES: dict[str, Any] = {"vocab_size": VOCABULARY, **LAYERS}
CHAT = "{% for message in messages %}<s>{{ message['role'] }}: {{ message['content'] }}</s>{% endfor %}<s>assistant: "


def texts() -> list[str]:
    """What tokenizers learn from: the words of needs, tools and APIs."""
    folders = [ROOT / "data" / "needs", ROOT / "data" / "catalogue"]
    paths = [path for folder in folders for path in sorted(folder.glob("*.yaml"))]
    return [path.read_text(encoding="utf-8") for path in [*paths, ROOT / "data" / "toolbox.yaml"]]


def learned_tokenizer():
    """Byte-level tokens, so that every text has some."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    learned = ByteLevelBPETokenizer()
    learned.train_from_iterator(texts(), VOCABULARY, special_tokens=["<s>", "</s>"], show_progress=False)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>", "model_max_length": WINDOW}
    return PreTrainedTokenizerFast(tokenizer_object=learned._tokenizer, chat_template=CHAT, **names)


def encoder(folder: Path) -> None:
    """A sentence encoder like MiniLM: BERT with two layers, the mean of its tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**SIZES, max_position_embeddings=512))
    for same in (model.embeddings.position_embeddings, model.embeddings.token_type_embeddings):
        same.weight.data.zero_()  # what all texts have in common would make all of them alike
    with tempfile.TemporaryDirectory() as bert:
        learned_tokenizer().save_pretrained(bert)
        model.save_pretrained(bert)
        modules = [Transformer(bert, max_seq_length=256), Pooling(SIZES["hidden_size"]), Normalize()]
        SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder), create_model_card=False)


def language_model(folder: Path) -> None:
    """A causal language model like SmolLM2: Llama with two layers, byte-level tokens and a chat template."""
    from transformers import LlamaConfig, LlamaForCausalLM

    learned_tokenizer().save_pretrained(folder)
    tokens: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    config = LlamaConfig(**SIZES, **tokens, num_key_value_heads=2, max_position_embeddings=WINDOW)
    LlamaForCausalLM(config).save_pretrained(folder)


TINY: dict[str, Callable[[Path], None]] = {"tiny-encoder": encoder, "tiny-lm": language_model}


def tiny_model(name: str, cache: Path) -> Path:
    """The folder of a tiny model, made where it is not there; another version of it lies elsewhere."""
    import torch
    from transformers.utils.logging import disable_progress_bar

    version = hashlib.sha256("".join([Path(__file__).read_text(encoding="utf-8"), *texts()]).encode()).hexdigest()
    folder = cache / f"{name}-{version[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits and finds the model there
        if not folder.exists():
            disable_progress_bar()
            with atomic_folder(folder) as fresh, torch.random.fork_rng(devices=[]):
                torch.manual_seed(7)
                TINY[name](fresh)
    return folder
