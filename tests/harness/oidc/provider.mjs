// A real OpenID provider for tests: the npm package `oidc-provider`, with accounts that anybody may sign in as.
//
// Argument: what `harness::oidc` says, as JSON. The first line of standard output is the issuer; the end of standard
// input is the end of this process, so that it never outlives its test.

import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { packages, client, accounts, email_in_id_token, forged } = JSON.parse(process.argv.at(-1));
const { default: Provider } = await import(pathToFileURL(createRequire(`${packages}/`).resolve('oidc-provider')));

// The package talks on standard output, where only the issuer is awaited.
console.info = console.error;

const server = createServer();
await new Promise((bound) => server.listen(0, '127.0.0.1', bound));
const issuer = `http://127.0.0.1:${server.address().port}`;

const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...key, use: 'sig', alg: 'RS256' }] },
  cookies: { keys: ['of the tests'] },
  clients: [{
    client_id: client.id,
    client_secret: client.secret,
    redirect_uris: [client.redirect_uri],
    // RFC 8252, section 7.3: a native application's loopback address counts with every port. The product's is free.
    application_type: 'native',
    token_endpoint_auth_method: 'client_secret_basic',
  }],
  claims: { openid: ['sub', 'groups'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: !email_in_id_token,
  pkce: { required: () => true, methods: ['S256'] },
  features: { devInteractions: { enabled: false } },
  findAccount: (_, subject) => {
    const account = accounts.find((account) => account.subject === subject);
    return account && {
      accountId: subject,
      claims: () => ({
        sub: subject,
        email: account.email,
        email_verified: account.email_verified,
        groups: account.groups.length > 0 ? account.groups : undefined,
      }),
    };
  },
  loadExistingGrant: async ({ oidc }) => {
    const grant = new provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
    grant.addOIDCScope('openid email profile');
    await grant.save();
    return grant;
  },
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
});

// Claims that no honest provider puts into an ID token; moments are seconds from now.
if (forged) {
  const payload = provider.IdToken.prototype.payload;
  const at = (seconds) => Math.floor(Date.now() / 1000) + seconds;
  provider.IdToken.prototype.payload = async function forge() {
    const { authorized_party, issued_in, signed_in_in } = forged;
    return {
      ...(await payload.call(this)),
      ...(authorized_party !== null && { azp: authorized_party }),
      ...(issued_in !== null && { iat: at(issued_in) }),
      ...(signed_in_in !== null && { auth_time: at(signed_in_in) }),
    };
  };
}

server.on('request', (request, response) => {
  const served = new URL(request.url, issuer).pathname.startsWith('/interaction/')
    ? interaction(request, response)
    : provider.callback()(request, response);
  served.catch((error) => response.writeHead(500).end(String(error)));
});

// One form: a button per account, and one that refuses.
async function interaction(request, response) {
  if (request.method !== 'POST') {
    const { uid } = await provider.interactionDetails(request, response);
    const buttons = accounts.map(({ subject, email }) =>
      `<p><button name="account" value="${subject}">Continue as ${email}</button></p>`);
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    response.end(`<!doctype html><html lang="en"><title>A provider</title><link rel="icon" href="data:,"><h1>Who are you?</h1>
      <form method="post" action="/interaction/${uid}">${buttons.join('')}
      <p><button name="refuse" value="yes">Refuse</button></p></form></html>`);
    return;
  }
  let body = '';
  for await (const part of request) body += part;
  const account = new URLSearchParams(body).get('account');
  const result = account
    ? { login: { accountId: account }, consent: {} }
    : { error: 'access_denied', error_description: 'the person refused' };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
}

process.stdin.resume().on('end', () => process.exit(0));
process.stdout.write(`${issuer}\n`);
