"""The examples run as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Dict
from urllib.parse import parse_qs, urlsplit

from attache_client import Claim, DeviceCode

from support import KEY, URL, Person

EXAMPLES = Path(__file__).parents[1] / "examples"


@unittest.skipUnless(URL, "ATTACHE_TEST_URL names no server")
class Examples(unittest.TestCase):
    def start(self, name: str, **environment: str) -> "subprocess.Popen[str]":
        return self.run_program(str(EXAMPLES / name), URL, **environment)

    def run_program(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = str(EXAMPLES.parent / "src")
        variables: Dict[str, str] = {**os.environ, **environment, "PYTHONPATH": source}
        example = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder.name, env=variables, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert example.stdout is not None
        self.addCleanup(example.stdout.close)
        self.addCleanup(example.wait)
        self.addCleanup(example.kill)
        return example

    def test_agent(self) -> None:
        agent = self.start("agent.py")
        assert agent.stdout is not None
        link, typed = agent.stdout.readline().split()[1], agent.stdout.readline().split()[2]
        Person().complete(Claim(typed, link, 1800, 5))
        self.assertEqual(agent.stdout.readline(), "acting for ada@example.com\n")
        user_code = parse_qs(urlsplit(agent.stdout.readline().split()[1]).query)["user_code"][0]
        Person().approve(DeviceCode("", user_code, "", "", 1800, 5))
        rest = agent.communicate()[0]
        self.assertEqual(agent.returncode, 0)
        self.assertEqual(rest.count("Recorded(event_id="), 3, rest)
        self.assertTrue(re.search(r"\nevent 2 is leaf \d+ of \d+\n$", rest), rest)

    def test_the_first_lines_of_the_readme(self) -> None:
        readme = (EXAMPLES.parent / "README.md").read_text("utf-8")
        program = readme.split("```python\n")[1].split("```")[0].replace("http://127.0.0.1:8080", URL)
        example = self.run_program("-u", "-c", program)
        assert example.stdout is not None
        user_code = parse_qs(urlsplit(example.stdout.readline().split()[-1]).query)["user_code"][0]
        Person().approve(DeviceCode("", user_code, "", "", 1800, 5))
        rest = example.communicate()[0]
        self.assertEqual(example.returncode, 0)
        self.assertRegex(rest, "^Recorded\\(event_id='[0-9a-f-]{36}', receipt_id='[0-9a-f-]{36}', status='recorded'\\)\n$")

    def test_knowledge(self) -> None:
        knowledge = self.start("knowledge.py", ATTACHE_KEY=KEY)
        output = knowledge.communicate()[0]
        self.assertEqual(knowledge.returncode, 0)
        self.assertRegex(output, r"^0 of 2\n1 of 2\n2 of 2\n0\.\d\d Bakery: The bakery on the square sells rye bread on Thursdays\.\n$")


if __name__ == "__main__":
    unittest.main()
