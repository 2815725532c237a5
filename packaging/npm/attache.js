#!/usr/bin/env node
// Starts the program of this platform's package, and ends as it ends.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");

const name = `@PACKAGE@-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/@PROGRAM@`);
} catch {
  console.error(`attache: the package ${name} is not installed. There are programs for Linux on x64 and arm64 with glibc; npm leaves them out with --omit=optional.`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`attache: ${program} does not start: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + os.constants.signals[signal]));
