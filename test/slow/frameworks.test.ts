// The programs in examples/frameworks for frameworks without an adapter, with the frameworks from npm.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../../scripts/lib/run.mjs';
import { makeProject, runIn } from './project.js';

const folder = join(root, 'examples/frameworks');
const files = readdirSync(folder);
const programs = files.map((file) => readFileSync(join(folder, file), 'utf8'));

/** The program that imports a package. */
const programOf = (name: string): string | undefined =>
  programs.find((code) => code.includes(`from '${name}'`));

const packages = {
  '@azure/functions': '4.16.5',
  '@google-cloud/functions-framework': '5.0.5',
  '@grpc/grpc-js': '1.14.7',
  '@hapi/hapi': '21.4.10',
  elysia: '1.4.30',
  express: '5.3.0',
  graphql: '16.15.0',
  'graphql-yoga': '5.24.1',
  h3: '2.0.8',
  'h3-1': 'npm:h3@1',
  moleculer: '0.14.36',
  'moleculer-web': '0.10.8',
  'node-mock-http': '1.0.5',
  polka: '0.5.2',
  restify: '11.1.0',
  'serverless-http': '4.0.0',
};

/** The end of each program: `ask` is the status of one request. Its argument counts the requests, for addresses that a client forges. */
const ends: Readonly<Record<string, string>> = {
  polka: `
app.get('/', (req, res) => res.end('hello')).listen(0, '127.0.0.1');
const ask = over(app.server);`,
  restify: `
server.get('/', (req, res, next) => { res.send('hello'); next(); });
server.listen(0, '127.0.0.1');
const ask = over(server.server);`,
  '@hapi/hapi': `
server.route({ method: 'GET', path: '/', handler: () => 'hello' });
await server.start();
const ask = over(server.listener);`,
  elysia: `
import served from './program.mjs';
const bun = { requestIP: () => ({ address: '192.0.2.1' }) };
const ask = async () => (await served.fetch(new Request('http://localhost/'), bun)).status;`,
  h3: `
import { serve } from 'h3';
app.get('/', () => 'hello');
const running = serve(app, { port: 0, hostname: '127.0.0.1', silent: true });
await running.ready();
const ask = async () => (await fetch(running.url)).status;`,
  'h3-1': `
import { createServer } from 'node:http';
import { createApp, eventHandler, toNodeListener } from 'h3-1';
import { fetchNodeRequestHandler } from 'node-mock-http';
import limit from './program.mjs';
const served = toNodeListener(createApp().use(limit).use(eventHandler(() => 'hello')));
// As Nitro's localFetch does.
const emulated = (req, res) => {
  req.socket.remoteAddress = '192.0.2.1';
  return served(req, res);
};
const local = [];
for (let i = 0; i < 3; i++) local.push((await fetchNodeRequestHandler(emulated, 'http://localhost/')).status);
if (local.join() !== '200,200,429') throw new Error(local.join());
const ask = over(createServer(served).listen(0, '127.0.0.1'));`,
  'graphql-yoga': `
server.listen(0, '127.0.0.1');
const ask = over(server, 'graphql?query={hello}');`,
  'moleculer-web': `
import { ServiceBroker } from 'moleculer';
const broker = new ServiceBroker({ logger: false });
broker.createService({ name: 'shop', actions: { hello: () => 'hello' } });
const service = broker.createService(api);
await broker.start();
const ask = over(service.server);`,
  '@grpc/grpc-js': `
const plain = { serialize: (v) => Buffer.from(v), deserialize: (b) => b.toString() };
const method = { path: '/shop/hello', requestStream: false, responseStream: false };
const definition = { hello: { ...method, requestSerialize: plain.serialize, requestDeserialize: plain.deserialize, responseSerialize: plain.serialize, responseDeserialize: plain.deserialize } };
const server = new grpc.Server();
server.addService(definition, { hello: limited((call, callback) => callback(null, 'hello')) });
const port = await new Promise((resolve, reject) => server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => error ? reject(error) : resolve(port)));
const Client = grpc.makeGenericClientConstructor(definition, 'shop');
const client = new Client('127.0.0.1:' + port, grpc.credentials.createInsecure());
// A call without an address is refused, and the process lives on.
const socket = 'unix:' + process.cwd() + '/grpc.sock';
await new Promise((resolve, reject) => server.bindAsync(socket, grpc.ServerCredentials.createInsecure(), (error) => error ? reject(error) : resolve()));
const local = await new Promise((resolve) => new Client(socket, grpc.credentials.createInsecure()).hello('a', (error) => resolve(error?.details)));
if (!/address/.test(local)) throw new Error(local);
const ask = () => new Promise((resolve) => client.hello('a', (error) => resolve(error ? (error.code === grpc.status.RESOURCE_EXHAUSTED ? 429 : error.message) : 200)));`,
  'serverless-http': `
import * as program from './program.mjs';
const event = { version: '2.0', rawPath: '/', headers: {}, requestContext: { http: { method: 'GET', path: '/', sourceIp: '192.0.2.1' } } };
const ask = async () => (await program.handler(event, {})).statusCode;`,
  '@azure/functions': `
import azure from '@azure/functions';
const { HttpRequest, HttpResponse, InvocationContext } = azure;
const forwarded = ['[2001:db8::1]:4711', '192.0.2.1:4711, [2001:db8::1]:4712', '192.0.2.2, 2001:db8::1'];
const ask = async (count) => {
  const request = new HttpRequest({ method: 'GET', url: 'http://localhost/', headers: { 'x-forwarded-for': forwarded[count] } });
  return new HttpResponse(await handler(request, new InvocationContext())).status;
};`,
  '@google-cloud/functions-framework': `
import { getTestServer } from '@google-cloud/functions-framework/testing';
const ask = over(getTestServer('hello').listen(0, '127.0.0.1'), '', (count) => \`198.51.100.\${count}, 192.0.2.1\`);`,
};

const over = `
const over = (server, path = '', forwarded = undefined) => async (count) => {
  while (!server.address()) await new Promise((resolve) => setTimeout(resolve, 5));
  const headers = forwarded ? { 'x-forwarded-for': forwarded(count) } : {};
  return (await fetch(\`http://127.0.0.1:\${server.address().port}/\${path}\`, { headers })).status;
};`;

describe('frameworks without an adapter', () => {
  let project: string;
  before(async () => {
    project = await makeProject(packages);
  }).timeout(300_000);
  after(() => rmSync(project, { recursive: true, force: true }));

  it('have a program each, which the pages link', () => {
    expect(Object.keys(ends).filter((name) => !programOf(name))).to.deep.equal([]);
    const pages = ['hono-koa-web', 'serverless'].map((page) =>
      readFileSync(join(root, `docs/${page}.md`), 'utf8'),
    );
    const unlinked = files.filter(
      (file) => !pages.some((page) => page.includes(`(../examples/frameworks/${file})`)),
    );
    expect(unlinked).to.deep.equal([]);
  });

  for (const [name, end] of Object.entries(ends))
    it(`${name}: a client is denied after its quota`, async () => {
      const code = programOf(name)!.replace(/100\/1m|limit: 100/, (text) => text.replace('100', '2'));
      writeFileSync(join(project, 'program.mjs'), code);
      const names = [...code.matchAll(/export const (\w+)/g)].map(([, each]) => each);
      const imports = /import .*program\.mjs/.test(end)
        ? ''
        : `import { ${names.join(', ')} } from './program.mjs';\n`;
      const grpc = name === '@grpc/grpc-js' ? `import grpc from '${name}';\n` : '';
      const run = `const statuses = [await ask(0), await ask(1), await ask(2)];\nconsole.log(statuses.join());\nprocess.exit();\n`;
      writeFileSync(join(project, 'main.mjs'), [imports, grpc, over, end, run].join('\n'));
      expect((await runIn(project, process.execPath, ['main.mjs'])).trim().split('\n').at(-1)).to.equal(
        '200,200,429',
      );
    }).timeout(120_000);
});
