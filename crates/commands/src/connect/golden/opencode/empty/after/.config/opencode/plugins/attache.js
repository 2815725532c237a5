// Written by `attache connect opencode`; `attache disconnect opencode` removes it.
// It passes events to `attache hook opencode`, which decides what is recorded by your consent.
import { spawn } from "node:child_process"

const COMMAND = ["/usr/local/bin/attache","hook","opencode","--profile","default"]

// Parts of messages arrive many times while they grow: only finished calls of tools are passed on.
// Prompts come from `chat.message`, with their text. Edits are calls of tools: `file.edited` repeats them.
const isWanted = (event) => {
  const { type, properties } = event
  if (type === "message.part.updated") {
    const { part } = properties
    return part?.type === "tool" && ["completed", "error"].includes(part.state?.status)
  }
  if (type === "message.updated") {
    const { info } = properties
    return info?.role === "assistant" && Boolean(info?.time?.completed)
  }
  return [
    "session.created", "session.error", "session.deleted", "session.compacted",
    "permission.asked", "permission.updated", "permission.replied",
  ].includes(type)
}

const pass = (payload) => {
  try {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "ignore", "ignore"] })
    child.on("error", () => {})
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(payload))
    child.unref()
  } catch {
    // The tool works as without the plugin.
  }
}

export const AttachePlugin = async ({ directory }) => ({
  event: async ({ event }) => {
    if (isWanted(event)) pass({ event, directory })
  },
  "chat.message": async (input, output) => pass({ hook: "chat.message", input, output, directory }),
})
