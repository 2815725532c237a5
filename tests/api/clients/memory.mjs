// The official client of MCP (npm `@modelcontextprotocol/sdk`) lists and calls the tools of the memory. Argument: `{packages, server}` as
// JSON; the server is `{url, key}` or `{command, environment, folder}`. Prints what it saw as JSON.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { packages, server } = JSON.parse(process.argv.at(-1));
const { resolve } = createRequire(`${packages}/`);
const load = (name) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/client/${name}`)));
const { Client } = await load('index.js');

async function transport() {
  if (server.url) {
    const { StreamableHTTPClientTransport } = await load('streamableHttp.js');
    const requestInit = { headers: { Authorization: `Bearer ${server.key}` } };
    return new StreamableHTTPClientTransport(new URL(server.url), { requestInit });
  }
  const { StdioClientTransport } = await load('stdio.js');
  return new StdioClientTransport({ command: server.command, args: ['mcp'], env: server.environment, cwd: server.folder });
}

const client = new Client({ name: 'tests', version: '1.0.0' });
await client.connect(await transport());
await client.ping();
const { tools } = await client.listTools();
const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
const added = await call('add_memory', { content: 'Basalt columns form when lava cools slowly.', title: 'Basalt' });
const found = await call('search_memory', { query: 'why do volcanic rocks have six sides?', limit: 1 });
const unknown = await client.callTool({ name: 'no_such_tool', arguments: {} }).then(() => null, (error) => error.code);
console.log(JSON.stringify({
  server: client.getServerVersion().name,
  tools: tools.map((tool) => tool.name),
  hints: Object.fromEntries(tools.map((tool) => [tool.name, tool.annotations.destructiveHint])),
  added,
  found,
  unknown,
}));
await client.close();
