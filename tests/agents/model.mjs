// A model on loopback for the agents of package.json: it speaks the APIs of Anthropic, OpenAI (chat and responses) and Gemini as far as they use
// them. For each prompt it calls a shell twice, writes FILE, asks attache's MCP server for the consent, and answers.
//
// `node model.mjs FILE` prints the port once it listens, and requests that it does not know to standard error.
import { createServer } from "node:http"

const [file] = process.argv.slice(2)
const TEXT = "written by a model\n"
const ANSWER = "The harbour is quiet."

// Each agent has tools of its own for the same.
const shell = (command) => [
  ["Bash", { command, description: "Look" }],
  ["bash", { command, description: "Look" }],
  ["run_shell_command", { command, description: "Look" }],
  ["exec_command", { cmd: command }],
]
const WRITERS = [
  ["Write", { file_path: file, content: TEXT }],
  ["write_file", { file_path: file, content: TEXT }],
  ["write", { filePath: file, content: TEXT }],
  ["create", { path: file, file_text: TEXT }],
  ["apply_patch", `*** Begin Patch\n*** Add File: ${file}\n+${TEXT}*** End Patch\n`],
]

/** The call that follows `done` calls, of a tool that the agent offers; none after the last. */
const nextCall = (offered, done) => {
  const among = (known) => known.find(([name]) => offered.some((tool) => tool.name === name))
  const memory = offered.find(({ name }) => name?.endsWith("check_consent"))
  const plan = [among(shell("echo harbour")), among(shell("ls /nowhere")), among(WRITERS), memory && [memory.name, {}]].filter(Boolean)
  if (done >= plan.length) return null
  const [name, input] = plan[done]
  const id = `call_${done}_${Math.random().toString(36).slice(2)}`
  return { ...offered.find((tool) => tool.name === name), id, input }
}

const json = (response, body) => {
  response.writeHead(200, { "content-type": "application/json" })
  response.end(JSON.stringify(body))
}

/** Server-sent events: objects whose `type` is the name of the event, or texts. */
const stream = (response, events) => {
  response.writeHead(200, { "content-type": "text/event-stream" })
  for (const event of events) {
    const name = event.type ? `event: ${event.type}\n` : ""
    response.write(`${name}data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`)
  }
  response.end()
}

const anthropic = (request, response) => {
  const blocks = request.messages.flatMap(({ content }) => (Array.isArray(content) ? content : []))
  const call = nextCall(request.tools ?? [], blocks.filter(({ type }) => type === "tool_result").length)
  const [block, start, delta, stop_reason] = call
    ? [
        { type: "tool_use", id: `toolu_${call.id}`, name: call.name, input: call.input },
        { type: "tool_use", id: `toolu_${call.id}`, name: call.name, input: {} },
        { type: "input_json_delta", partial_json: JSON.stringify(call.input) },
        "tool_use",
      ]
    : [{ type: "text", text: ANSWER }, { type: "text", text: "" }, { type: "text_delta", text: ANSWER }, "end_turn"]
  const usage = { input_tokens: 11, output_tokens: 7 }
  const message = { id: `msg_${Date.now()}`, type: "message", role: "assistant", model: request.model, stop_sequence: null, usage }
  if (!request.stream) return json(response, { ...message, content: [block], stop_reason })
  stream(response, [
    { type: "message_start", message: { ...message, content: [], stop_reason: null } },
    { type: "content_block_start", index: 0, content_block: start },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
    { type: "message_stop" },
  ])
}

const responses = (request, response) => {
  // Tools of an MCP server are members of a namespace.
  const offered = (request.tools ?? []).flatMap((tool) =>
    tool.type === "namespace" ? tool.tools.map((inner) => ({ ...inner, namespace: tool.name })) : [tool])
  const call = nextCall(offered, request.input.filter(({ type }) => type?.endsWith("_call_output")).length)
  const common = call && { call_id: call.id, name: call.name, namespace: call.namespace, status: "completed" }
  const item = !call
    ? { type: "message", id: `msg_${Date.now()}`, role: "assistant", content: [{ type: "output_text", text: ANSWER, annotations: [] }] }
    : call.type === "custom"
      ? { type: "custom_tool_call", id: `ctc_${call.id}`, input: call.input, ...common }
      : { type: "function_call", id: `fc_${call.id}`, arguments: JSON.stringify(call.input), ...common }
  const usage = { input_tokens: 11, output_tokens: 7, total_tokens: 18 }
  const whole = { id: `resp_${Date.now()}`, object: "response", status: "completed", output: [item], usage }
  stream(response, [
    { type: "response.created", response: { ...whole, status: "in_progress", output: [], usage: null } },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: whole },
  ])
}

const chat = (request, response) => {
  const offered = (request.tools ?? []).map((tool) => tool.function ?? tool)
  const call = nextCall(offered, request.messages.filter(({ role }) => role === "tool").length)
  const made = call && { index: 0, id: call.id, type: "function", function: { name: call.name, arguments: JSON.stringify(call.input) } }
  const message = made ? { role: "assistant", content: null, tool_calls: [made] } : { role: "assistant", content: ANSWER }
  const finish_reason = made ? "tool_calls" : "stop"
  const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
  const head = { id: `chatcmpl-${Date.now()}`, created: 1700000000, model: request.model }
  if (!request.stream) {
    return json(response, { ...head, object: "chat.completion", choices: [{ index: 0, message, finish_reason }], usage })
  }
  const chunk = { ...head, object: "chat.completion.chunk" }
  stream(response, [
    { ...chunk, choices: [{ index: 0, delta: message, finish_reason: null }] },
    { ...chunk, choices: [{ index: 0, delta: {}, finish_reason }] },
    { ...chunk, choices: [], usage },
    "[DONE]",
  ])
}

const gemini = (request, response, isStream) => {
  const offered = (request.tools ?? []).flatMap((tool) => tool.functionDeclarations ?? [])
  const parts = request.contents.flatMap(({ parts }) => parts ?? [])
  const call = nextCall(offered, parts.filter((part) => part.functionResponse).length)
  // The agent first asks a small model which one is to answer.
  const isChoice = request.generationConfig?.responseMimeType === "application/json"
  const text = isChoice ? JSON.stringify({ complexity_reasoning: "", complexity_score: 1 }) : ANSWER
  const part = call && !isChoice ? { functionCall: { name: call.name, args: call.input } } : { text }
  const usageMetadata = { promptTokenCount: 11, candidatesTokenCount: 7, totalTokenCount: 18 }
  const candidates = [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }]
  const body = { candidates, usageMetadata }
  return isStream ? stream(response, [body]) : json(response, body)
}

const answer = (path, request, response) => {
  const is = (end) => path.endsWith(end)
  if (is("/count_tokens")) return json(response, { input_tokens: 11 })
  if (is(":countTokens")) return json(response, { totalTokens: 11 })
  if (is("/messages")) return anthropic(request, response)
  if (is("/responses")) return responses(request, response)
  if (is("/chat/completions")) return chat(request, response)
  if (is(":generateContent")) return gemini(request, response, false)
  if (is(":streamGenerateContent")) return gemini(request, response, true)
  console.error(`unknown: ${path}`)
  response.writeHead(404).end()
}

const server = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const { pathname } = new URL(request.url, "http://localhost")
  try {
    answer(pathname, chunks.length > 0 ? JSON.parse(Buffer.concat(chunks)) : {}, response)
  } catch (error) {
    console.error(pathname, error)
    response.destroy()
  }
})
server.listen(0, "127.0.0.1", () => console.log(server.address().port))
