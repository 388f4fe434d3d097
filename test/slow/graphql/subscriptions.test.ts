// Subscriptions of GraphQL under Nest's global guard, with the real servers and clients, which the test installs from npm.
import { rmSync } from 'node:fs';
import { expect } from 'chai';
import { makeProject, runIn } from '../project.js';

const nest = { common: '11.2.10', core: '11.2.10', websockets: '11.2.6', 'platform-express': '11.2.10' };
const others = { 'platform-fastify': '11.2.8', apollo: '13.4.5', graphql: '13.4.5', mercurius: '13.4.5' };
const PACKAGES = {
  ...Object.fromEntries(
    Object.entries({ ...nest, ...others }).map(([name, version]) => [`@nestjs/${name}`, version]),
  ),
  ...{ '@apollo/server': '5.5.1', '@as-integrations/express5': '1.1.2', '@as-integrations/fastify': '3.1.0' },
  ...{ mercurius: '16.10.1', graphql: '16.15.0', 'reflect-metadata': '0.2.2', rxjs: '7.8.2', ws: '8.23.0' },
  ...{ 'graphql-ws': '6.4.2', 'graphql-sse': '2.6.1', 'subscriptions-transport-ws': '0.11.0' },
};

describe('GraphQL subscriptions in Nest', function () {
  this.timeout(300_000);

  it('are charged to the address of their connection, by each protocol and server', async () => {
    const project = await makeProject(PACKAGES, 'graphql/subscriptions.mjs');
    try {
      expect(await runIn(project, process.execPath, ['subscriptions.mjs'])).to.equal('works\n');
    } finally {
      rmSync(project, { recursive: true, force: true });
    }
  });
});
