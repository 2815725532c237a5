// The official client of MCP (npm `@modelcontextprotocol/sdk`): connects, lists, calls. Argument: `{packages, url}` as JSON. Prints
// what it saw as JSON.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { packages, url } = JSON.parse(process.argv.at(-1));
const { resolve } = createRequire(`${packages}/`);
const load = (name) => import(pathToFileURL(resolve(`@modelcontextprotocol/sdk/client/${name}`)));
const { Client } = await load('index.js');
const { StreamableHTTPClientTransport } = await load('streamableHttp.js');

const client = new Client({ name: 'tests', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
await client.ping();
const { tools } = await client.listTools();
const called = await client.callTool({ name: 'about_service', arguments: {} });
const unknown = await client.callTool({ name: 'no_such_tool', arguments: {} }).then(() => null, (error) => error.code);
console.log(JSON.stringify({
  version: transport.protocolVersion,
  server: client.getServerVersion().name,
  tools: tools.map((tool) => tool.name),
  text: called.content[0].text,
  unknown,
}));
await client.close();
