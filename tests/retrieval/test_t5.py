"""A T5 encoder made as GTR-T5-XL is (mean pooling, dense layer, normalisation, float16 weights), tiny and random."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

from lib.retrieval.dense import encode, load_encoder

pytestmark = pytest.mark.slow

WORDS = "lemon tree river stone music piano garden winter letter doctor ticket train window bottle coffee".split()
TEXTS = ["piano", "lemon tree river stone music piano garden winter", "doctor letter", "train ticket window bottle"]


def build(folder, seed=3):
    torch.manual_seed(seed)
    vocabulary = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    own = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 32}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **own).save_pretrained(folder / "t5")
    shape = {"vocab_size": len(vocabulary), "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    T5EncoderModel(T5Config(**shape, pad_token_id=0, eos_token_id=1)).save_pretrained(folder / "t5")
    dense = Dense(32, 16, bias=False, activation_function=torch.nn.Identity())
    parts = [Transformer(str(folder / "t5")), Pooling(32, "mean"), dense, Normalize()]
    SentenceTransformer(modules=parts, device="cpu").half().save_pretrained(
        str(folder / "gtr"), create_model_card=False
    )
    return str(folder / "gtr")


@pytest.fixture(scope="module")
def gtr(tmp_path_factory):
    return build(tmp_path_factory.mktemp("gtr"))


@pytest.fixture(scope="module")
def encoder(gtr):
    return load_encoder(gtr, threads=1)


def by_hand(encoder, text):
    """The mean over a text's tokens, alone and without padding, through the dense layer, at unit length."""
    ids = torch.tensor([encoder.tokenizer(text)["input_ids"]])
    with torch.no_grad():
        mean = encoder[0].auto_model(input_ids=ids).last_hidden_state[0].mean(0)
        return torch.nn.functional.normalize(encoder[2].linear(mean), dim=0).numpy()


def test_weights_in_float16_are_computed_in_float32(gtr, encoder):
    from safetensors.torch import load_file

    stored = load_file(f"{gtr}/model.safetensors")
    assert {value.dtype for value in stored.values()} == {torch.float16}
    assert {value.dtype for value in encoder.state_dict().values()} == {torch.float32}
    assert type(encoder[0].auto_model) is T5EncoderModel


def test_pooling_ignores_padding_and_vectors_do_not_depend_on_the_batch(encoder):
    vectors = encode(encoder, TEXTS)
    assert vectors.shape == (4, 16)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector == pytest.approx(by_hand(encoder, text), abs=1e-5)
    for size in (1, 2):
        assert encode(encoder, TEXTS, batch_size=size) == pytest.approx(vectors, abs=1e-5)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert (vectors @ vectors.T)[~np.eye(4, dtype=bool)].max() < 0.999  # or every text would look alike
