"""A fixed sample of the onnx package's backend suite, by the functions of the benchmark that runs all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from artifactctl.crew import Crew
from benchmarks.onnx_suite import LIMITS, judge
from tests.models.suite import cases

# suite, case, verdict on the outputs it ships with, verdict of the build (which recipe is chosen, the clock decides)
SAMPLE = [
    ("node", "test_abs", "equivalent", "built"),
    ("node", "test_basic_conv_with_padding", "equivalent", "built"),
    ("node", "test_gelu_tanh_1_expanded", "equivalent", "built"),
    ("node", "test_resize_upsample_scales_nearest", "equivalent", "built"),
    # sequences and optionals
    ("node", "test_identity_sequence", "equivalent", "built"),
    ("node", "test_sequence_map_add_2_sequences", "equivalent", "built"),
    ("node", "test_split_to_sequence_1", "equivalent", "built"),
    ("node", "test_optional_get_element_tensor", "cannot run", "cannot run"),
    ("node", "test_optional_has_element_empty_optional_input", "cannot run", "cannot run"),
    ("node", "test_if_opt", "equivalent", "built"),
    ("simple", "test_sequence_model1", "equivalent", "built"),
    ("simple", "test_sequence_model7", "equivalent", "built"),
    # strings
    ("node", "test_string_concat_utf8", "equivalent", "built"),
    ("node", "test_equal_string", "equivalent", "built"),
    ("node", "test_ai_onnx_ml_label_encoder_string_int", "equivalent", "built"),
    ("simple", "test_strnorm_model_monday_casesensintive_nochangecase", "equivalent", "built"),
    # types that numpy does not have
    ("node", "test_castlike_FLOAT_to_BFLOAT16_expanded", "equivalent", "built"),
    ("node", "test_castlike_BFLOAT16_to_FLOAT", "equivalent", "built"),
    ("node", "test_castlike_FLOAT_to_FLOAT8E4M3FN", "equivalent", "built"),
    ("node", "test_castlike_FLOAT8E5M2_to_FLOAT", "equivalent", "built"),
    ("node", "test_quantizelinear_int4", "cannot run", "cannot run"),
    ("node", "test_castlike_FLOAT_to_INT4", "equivalent", "built"),
    ("node", "test_castlike_UINT4_to_UINT8", "equivalent", "built"),
    ("node", "test_attention_4d_causal_bf16", "cannot run", "cannot run"),
    # nothing, and a single number
    ("node", "test_reduce_max_empty_set", "equivalent", "built"),
    ("node", "test_constantofshape_int_shape_zero", "equivalent", "built"),
    ("node", "test_clip_example", "equivalent", "built"),
    ("node", "test_split_zero_size_splits_opset13", "equivalent", "built"),
    # control flow
    ("node", "test_if", "equivalent", "built"),
    ("node", "test_loop11", "equivalent", "built"),
    ("node", "test_scan_sum", "equivalent", "built"),
    # training, other domains, operators and layouts that ONNX Runtime does not have
    ("node", "test_adam", "cannot run", "cannot run"),
    ("node", "test_batchnorm_example_training_mode", "equivalent", "built"),
    ("node", "test_training_dropout_zero_ratio_mask", "equivalent", "not steady"),
    ("node", "test_ai_onnx_ml_tree_ensemble_single_tree", "equivalent", "built"),
    ("node", "test_image_decoder_decode_png_rgb", "cannot run", "cannot run"),
    ("node", "test_simple_rnn_batchwise", "cannot run", "cannot run"),
    # where ONNX Runtime answers otherwise than the standard says
    ("node", "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", "different", "built"),
    ("node", "test_resize_downsample_scales_linear_align_corners", "different", "built"),
    # random numbers
    ("node", "test_bernoulli", "cannot run", "cannot run"),
    ("node", "test_training_dropout_default", "different", "not steady"),
    ("node", "test_training_dropout_mask", "different", "not steady"),
    # from elsewhere
    ("light", "light_squeezenet", "equivalent", "built"),
    ("pytorch-converted", "test_Conv2d", "equivalent", "built"),
    ("pytorch-operator", "test_operator_mm", "cannot run", "cannot run"),
    ("pytorch-operator", "test_operator_sqrt", "equivalent", "built"),
]

pytestmark = pytest.mark.xdist_group("onnx suite")  # the cases are made once, and Olive is loaded once


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    with Crew(limits=LIMITS) as crew:
        yield crew


@pytest.mark.parametrize(("suite", "name", "verified", "built"), SAMPLE, ids=[entry[1] for entry in SAMPLE])
def test_ends_in_the_expected_verdict(suite: str, name: str, verified: str, built: str, crew: Crew) -> None:
    outcome = judge(cases(suite)[name], crew)
    assert outcome.verify.kind == verified, outcome
    assert outcome.build.kind.partition(":")[0] == built, outcome
