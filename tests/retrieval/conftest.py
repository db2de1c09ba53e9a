"""A tiny random encoder, made on the spot."""

import numpy as np
import pandas as pd
import pytest

WORDS = ("lemon tree river stone music piano garden winter letter doctor ticket train window bottle coffee paper "
         "market summer island mirror").split()  # fmt: skip


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def run_of(**rankings):
    """A run by the items of each query, best first."""
    rows = [(query, item, rank) for query, items in rankings.items() for rank, item in enumerate(items, start=1)]
    return pd.DataFrame(rows, columns=["query", "item", "rank"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Folder of a random two-layer encoder."""
    return build_encoder(tmp_path_factory.mktemp("tiny"))


def build_encoder(folder):
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    vocabulary = {name: i for i, name in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    fast.save_pretrained(folder / "bert")
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=32,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder / "bert")
    words = Transformer(str(folder / "bert"), max_seq_length=32)
    encoder = SentenceTransformer(modules=[words, Pooling(16)])
    encoder.save_pretrained(str(folder / "encoder"), create_model_card=False)
    return str(folder / "encoder")
