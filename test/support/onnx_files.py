# SPDX-License-Identifier: Apache-2.0
"""Small ONNX files for tests: networks that answer the same to every image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_answer(
    path: Path,
    answer: np.ndarray,
    metadata: Mapping[str, str],
    shape: Sequence[int | str] = (1, 3, 240, 320),
    kind: int = TensorProto.FLOAT,
) -> Path:
    """Return a model with an input of `shape` that it ignores, whose output is `answer`."""
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["answers"], value=numpy_helper.from_array(answer))],
        "answers",
        [helper.make_tensor_value_info("images", kind, list(shape))],
        [helper.make_tensor_value_info("answers", TensorProto.FLOAT, list(answer.shape))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata))
    onnx.save(model, str(path))
    return path
