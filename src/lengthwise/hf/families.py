"""What a config leaves to the code of its model: layouts, bases where none is written, where tables begin.

All facts here were read in the model code of `transformers` 5.24 and are compared with it in the tests. A checkpoint
works with its own layout only, and no config says which one that is: an unknown `model_type` is therefore an error.
"""

from __future__ import annotations

from lengthwise.errors import InvalidArgument, nearest


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HALF = _names(
    """
    EvollaModel afmoe apertus apertus1p5_text arcee aria_text bamba beam bitnet chameleon cohere_compass_text
    cosmos3_edge_text csm csm_depth_decoder_model cwm dbrx deepseek_ocr2_encoder deepseek_ocr2_text dia_decoder
    dia_encoder diffllama diffusion_gemma_text doge dory dots1 dots3_note_audio_encoder embedding_gemma2_text
    emu3_text_model esm esmc eurobert evolla exaone exaone4 exaone_moe falcon falcon_h1 flex_olmo flint gemma
    gemma2 gemma3_text gemma3n_text gemma4_text gemma4_unified_text glm4_moe glm4v_moe_text glm_image_text
    glmasr_encoder gpt_neox gpt_neox_japanese gpt_oss gradium_phonon_tts granite granite4_vision_text
    granite_docling_text granite_swa granitemoe granitemoe_swa granitemoehybrid granitemoeshared gte
    higgs_audio_v2 hrm_text hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text hy_v3 hy_v4 hyperclovax idefics
    internlm3 iquestcoder jais2 jetmoe jina_embeddings_v3 kolibri1 kyutai_speech_to_text laguna lara_mini
    lasr_encoder lfm2 lfm2_moe lfm3 llama mellum mimi mimi_decoder mimi_encoder mimo_v2_flash minicpm3 minimax
    minimax_m2 minimax_m3_vl_text ministral ministral3 mistral mixtral mllama_text_model modernbert
    modernbert-decoder molmo2_text moshi muse_glimmer_assistant muse_glimmer_text muse_spark_text nemotron
    nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp nemotron3_diarization_audio neomme
    neucodec nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe paddleocr_vl_text persimmon phi phi3 phi4_multimodal
    phimoe pocket_tts pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder
    pocket_tts_audio_tokenizer_encoder qwen2 qwen2_5_omni_dit qwen2_5_omni_talker qwen2_5_omni_text
    qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next
    qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_vl_moe_text
    qwen3_vl_text qwen4_exp_text recurrent_gemma sarvam_moe seed_oss smollm3 solar_open stablelm starcoder2
    step3p5 t5_gemma_module t5gemma2_decoder t5gemma2_text timesfm2_5 ultrabert unlimited_ocr_text vaultgemma
    voxtral_realtime_encoder voxtral_realtime_text xcodec2 zamba2 zaya
    """
)
"""Pair m is the dims m and m + rotary_dim / 2."""

INTERLEAVED = _names(
    """
    axk1 axk2 bailing_hybrid blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher codegen
    cohere cohere2 cohere2_moe deepseek_v2 deepseek_v3 deepseek_v32 dots3_note_text ernie4_5 ernie4_5_moe
    ernie4_5_vl_moe_text glm glm4 glm4_moe_lite glm4v_text glm_moe_dsa glm_ocr_text gptj helium hy_v4_vl_text
    llama4_text longcat_flash mistral4 mistral_large4_text moonshine moonshine_streaming openai_privacy_filter
    pe_audio_encoder pe_audio_video_encoder pe_video_encoder roformer sarvam_mla youtu
    """
)
"""Pair m is the dims 2m and 2m + 1. A config with `rope_interleave` (DeepSeek-V3 and its kin) decides by itself."""

THETA: dict[str, float] = {
    name: theta
    for theta, names in {
        1e3: "nomic_bert",
        2e4: "jina_embeddings_v3 pe_audio_encoder pe_audio_video_encoder pe_video_encoder",
        1e5: "helium",
        1.5e5: "gpt_oss openai_privacy_filter",
        1.6e5: "gte",
        5e5: "EvollaModel bitnet blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher cohere csm "
        "csm_depth_decoder_model ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text evolla exaone flex_olmo llama4_text "
        "mllama_text_model muse_glimmer_assistant muse_spark_text olmo3 paddleocr_vl_text qwen3_vl_moe_text "
        "qwen3_vl_text",
        1e6: "cwm emu3_text_model lfm2 lfm2_moe minimax mixtral phimoe qwen2_5_omni_talker qwen2_5_omni_text "
        "qwen2_5_vl_text qwen2_vl_text qwen3_omni_moe_text solar_open",
        2e6: "smollm3",
        5e6: "minimax_m2 minimax_m3_vl_text",
        6e6: "bailing_hybrid",
        8e6: "sarvam_moe",
        1e7: "longcat_flash",
        11158840.0: "hy_v3",
        1.2e7: "apertus apertus1p5_text",
        1e8: "cosmos3_edge_text",
    }.items()
    for name in names.split()
}
"""`default_theta` of the config class, where it is not 10000."""

FRACTION: dict[str, float] = {
    name: fraction
    for fraction, names in {
        0.25: "gpt_neox qwen3_5_moe_text qwen3_5_text qwen3_next stablelm",
        0.5: "bamba dots3_note_audio_encoder glm glm4 glm4_moe glm4v_moe_text glmasr_encoder nemotron "
        "nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp persimmon phi recurrent_gemma",
        0.8: "moonshine_streaming",
        0.9: "moonshine",
    }.items()
    for name in names.split()
}
"""`partial_rotary_factor` of the config class, where it is not 1."""

IGNORES_ROTARY_DIM = frozenset({"minimax_m3_vl_text"})
"""Models whose config has `rotary_dim` beside `partial_rotary_factor`, and whose code reads the latter only."""

TWO_BASES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("gemma3_text", "gemma3n_text"), (1e6, 1e4)),
    **dict.fromkeys(("modernbert", "modernbert-decoder"), (1.6e5, 1e4)),
    "olmo3": (5e5, 5e5),
}
"""Bases of full and of sliding layers, for models whose `rope_scaling` in `transformers` 4 was for full ones only."""
FULL_EVERY = {"cohere2": 4, "gemma3_text": 6, "gemma3n_text": 5, "modernbert": 3, "modernbert-decoder": 3, "olmo3": 4}
"""Each how manieth layer has full attention, by the class of a model, where a config does not say."""

FIXED_THETA = frozenset({"codegen", "gptj", "roformer"})
"""Models whose code has the base 10000 and reads none from the config."""

SECTIONS: dict[str, tuple[tuple[int, int, int], bool]] = {
    **dict.fromkeys(
        ("paddleocr_vl_text", "qwen2_5_omni_talker", "qwen2_5_omni_text", "qwen2_5_vl_text", "qwen2_vl_text"),
        ((16, 24, 24), False),
    ),
    **dict.fromkeys(("glm4v_moe_text", "glm4v_text", "glm_image_text", "glm_ocr_text"), ((8, 12, 12), False)),
    **dict.fromkeys(
        ("cohere_compass_text", "cosmos3_edge_text", "hy_v4_vl_text", "qwen3_omni_moe_talker_text",
         "qwen3_omni_moe_text", "qwen3_vl_moe_text", "qwen3_vl_text"),
        ((24, 20, 20), True),
    ),
    **dict.fromkeys(("qwen3_5_moe_text", "qwen3_5_text", "qwen4_exp_text"), ((11, 11, 10), True)),
}  # fmt: skip
"""Models with M-RoPE: the sections that their code takes where a config has none, and whether the axes take turns."""

OTHER_AXES = {
    "ernie4_5_vl_moe_text": "rows and columns alternate, and time has the lowest frequencies",
    "hunyuan_vl_text": "its sections count dims of the head, not pairs",
}
"""M-RoPE of other arrangements, which `MRoPE` does not have; text alone is turned as by RoPE."""

SLIDING_ONLY = frozenset({"afmoe", "cohere2", "cohere2_moe", "exaone4", "exaone_moe", "flint", "kolibri1"})
"""Models that rotate in layers of sliding windows only."""
ALL_WITHOUT_WINDOW = frozenset({"exaone4", "exaone_moe", "kolibri1"})
"""Those of them that rotate in all layers where `sliding_window` is None."""
NO_ATTENTION = frozenset({"conv", "linear_attention", "mamba", "mlp", "recurrent"})
"""Types of layers that have no attention and so no encoding of their own."""

SCALED_SOFTMAX = _names(
    """
    axk1 axk2 bailing_hybrid deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa hy_v4 hy_v4_vl_text
    longcat_flash minicpm3 mistral4 mistral_large4_text sarvam_mla youtu
    """
)
"""Models that multiply the scale of their softmax by YaRN's factor of all dims, squared."""

T5 = frozenset({"longt5", "mt5", "pop2piano", "switch_transformers", "t5", "udop", "umt5"})
NONE = frozenset({"jamba", "nemotron_h", "zamba"})
"""Attention without any encoding."""
ALIBI = frozenset({"bloom"})  # MPT and Falcon say by a flag
FIRST_ROW = {
    **dict.fromkeys(
        ("albert", "bert", "clip_text_model", "distilbert", "electra", "gpt2", "gpt_bigcode", "gpt_neo", "imagegpt",
         "mpt", "openai-gpt"),
        0,
    ),
    **dict.fromkeys(("bart", "biogpt", "mbart", "opt"), 2),
}  # fmt: skip
"""Learned tables: the row of position 0."""
AFTER_PADDING = frozenset({"camembert", "esm", "roberta", "xlm-roberta"})
"""Learned tables whose position 0 is the row after that of the padding token; `max_position_embeddings` counts all."""

SAME_AS = {"glm4v": "glm4v_text", "qwen2_5_vl": "qwen2_5_vl_text", "qwen2_vl": "qwen2_vl_text"}
"""Model types whose configs had the settings of their text part at the top in `transformers` 4."""

REFUSED = {
    "cohere_compass_vision": "it rotates by row and column",
    "deepseek_v4": "it rotates the last dims of a head, and those of the result of attention back again",
    "dinov3_vit": "it rotates by row and column of patches",
    "efficientloftr": "it rotates by row and column of an image",
    "eomt_dinov3": "it rotates by row and column of patches",
    "llama4_vision_model": "it rotates by row and column of patches",
    "musicflamingo": "it rotates by seconds, not by positions",
    "nanochat": "it turns by -p theta, the other way round: no checkpoint of it works with a rotation by p theta",
    "sapiens2": "it rotates by row and column of patches",
}
"""Models with a rotation that no encoding of this package is."""


def known() -> frozenset[str]:
    """All model types of which this package knows the encoding."""
    tables = (SECTIONS, FIRST_ROW)
    return HALF | INTERLEAVED | T5 | NONE | ALIBI | AFTER_PADDING | {"mpt"} | frozenset().union(*tables)


def check(model_type: object) -> str:
    """Return a known model type.

    Raises:
        InvalidArgument: none, an unknown one, or one that can't be an encoding of this package, with the reason.
    """
    if not isinstance(model_type, str) or not model_type:
        raise InvalidArgument(
            "the config has no model_type, and only that says how a model pairs its dims: add it, 'llama' for models "
            "with the layout of Llama"
        )
    name = SAME_AS.get(model_type, model_type)
    if name in REFUSED:
        raise InvalidArgument(f"the encoding of {name!r} is none of this package: {REFUSED[name]}")
    if name not in known():
        raise InvalidArgument(
            f"unknown model_type {name!r}: {nearest(name, known())} A model that rotates as Llama does can be read "
            "with model_type 'llama'; one that pairs neighbouring dims with 'cohere'"
        )
    return name
