// Storage of a chain in a file, for Node, Deno and Bun.

import { open, readFile, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";

import type { ChainStorage } from "./chain.js";

/**
 * The state of a chain in a file that is replaced as a whole. The pending event is on disk before it is sent, so a program that crashes sends the same
 * bytes again after its next start. One process at a time may use a file.
 */
export function fileState(path: string): ChainStorage {
  return {
    async load() {
      try {
        return await readFile(path, "utf8");
      } catch (error) {
        if ((error as { code?: string }).code === "ENOENT") return undefined;
        throw error;
      }
    },
    async save(text) {
      const fresh = `${path}.${Date.now().toString(36)}${Math.random().toString(36).slice(2)}`;
      try {
        await write(fresh, text);
        await rename(fresh, path);
      } catch (error) {
        await rm(fresh, { force: true });
        throw error;
      }
      await syncFolder(dirname(path));
    },
  };
}

async function write(path: string, text: string): Promise<void> {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the new name durable, on systems that can open a folder. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r").catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
