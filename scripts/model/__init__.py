# SPDX-License-Identifier: GPL-2.0-only
"""How the in-process model is made: the wheel's weights, the tokenizer, the ONNX graph, the check of all three."""
