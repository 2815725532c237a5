// The part of Node's file system that `node.ts` uses, so that the package needs no types of Node.
declare module "node:fs/promises" {
  interface FileHandle {
    writeFile(text: string): Promise<void>;
    sync(): Promise<void>;
    close(): Promise<void>;
  }
  function open(path: string, flags: string, mode?: number): Promise<FileHandle>;
  function readFile(path: string, encoding: "utf8"): Promise<string>;
  function rename(from: string, to: string): Promise<void>;
  function rm(path: string, options: { force: boolean }): Promise<void>;
}
declare module "node:path" {
  function dirname(path: string): string;
}
