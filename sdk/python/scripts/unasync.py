"""Writes ``_sync.py`` from ``_async.py``. With ``--check`` it compares them instead."""

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src" / "attache_client"
WORDS = {
    r"The asynchronous clients\. ``_sync\.py`` is generated from this file": "The synchronous clients. Generated from ``_async.py``",
    r"import asyncio\n": "import threading\n",
    r"asyncio\.sleep": "time.sleep",
    r"asyncio\.Lock": "threading.Lock",
    r"AsyncIterator": "Iterator",
    r"httpx\.AsyncClient": "httpx.Client",
    r"Async(Client|Chain|Knowledge|Batch|Http)": r"\1",
    r"__a(enter|exit|iter)__": r"__\1__",
    r"\ba(close|read)\b": r"\1",
    r"aiter_lines": "iter_lines",
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
}


def synchronous(text: str) -> str:
    for pattern, replacement in WORDS.items():
        text = re.sub(pattern, replacement, text)
    # Imports in alphabetical order.
    return text.replace("import threading\nimport base64\nimport json\nimport time\n", "import base64\nimport json\nimport threading\nimport time\n")


if __name__ == "__main__":
    written = synchronous((PACKAGE / "_async.py").read_text("utf-8"))
    target = PACKAGE / "_sync.py"
    if "--check" not in sys.argv:
        target.write_text(written, "utf-8")
    elif target.read_text("utf-8") != written:
        sys.exit("_sync.py is not current: run scripts/unasync.py")
