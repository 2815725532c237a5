// The examples run as they are printed.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { describe, test } from "node:test";

import { KEY, URL_, ada, stateFile, withServer } from "./support.mjs";

/** @param {import("node:test").TestContext} t @param {string} name @param {(line: string) => unknown} read */
async function run(t, name, read) {
  const path = new URL(`../${name}`, import.meta.url).pathname;
  const env = { ...process.env, ATTACHE_KEY: KEY };
  const example = spawn(process.execPath, [path, URL_], { cwd: dirname(stateFile(t)), env, stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => example.kill());
  const output = [];
  for await (const line of createInterface({ input: example.stdout })) {
    output.push(line);
    await read(line);
  }
  assert.equal(example.exitCode ?? (await new Promise((exited) => example.once("exit", exited))), 0);
  return output.join("\n");
}

describe("examples", withServer, () => {
  test("agent", async (t) => {
    let link = "";
    const output = await run(t, "examples/agent.mjs", async (line) => {
      const [, opened] = /^Open (.*)$/.exec(line) ?? [];
      const [, typed] = /^and type (\d{6})$/.exec(line) ?? [];
      const code = opened && new URL(opened).searchParams.get("user_code");
      if (typed) await ada.complete({ user_code: typed, verification_uri: link });
      if (code) await ada.approve({ user_code: code });
      link = opened ?? link;
    });
    assert.match(output, /^acting for ada@example\.com$/m);
    assert.equal(output.match(/status: 'recorded'/g)?.length, 3, output);
    assert.match(output, /\nevent 2 is leaf \d+ of \d+$/);
  });

  test("the first lines of the README", async (t) => {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    const [, program = ""] = /```js\n(.*?)```/s.exec(readme) ?? [];
    // A folder of the package, from which its name resolves.
    const path = new URL(`../dist/readme-${process.pid}.mjs`, import.meta.url);
    writeFileSync(path, program.replace("http://127.0.0.1:8080", URL_));
    t.after(() => rmSync(path));
    const output = await run(t, `dist/readme-${process.pid}.mjs`, async (line) => {
      const [, link] = /^Approve this computer: (.*)$/.exec(line) ?? [];
      if (link) await ada.approve({ user_code: new URL(link).searchParams.get("user_code") ?? "" });
    });
    assert.match(output, /status: 'recorded'/);
  });

  test("knowledge", async (t) => {
    const output = await run(t, "examples/knowledge.mjs", () => {});
    assert.match(output, /^0 of 2\n1 of 2\n2 of 2\n0\.\d\d Bakery: The bakery on the square sells rye bread on Thursdays\.$/);
  });
});
