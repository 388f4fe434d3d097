// headgate dashboard finds its server again.
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { startServer } from '../../../../test/support/servers.js';
import { headgate } from '../cli.js';

describe('headgate dashboard', () => {
  it('shows that the server is down, and connects again when it is back', async () => {
    const server = await startServer('redis');
    const stdout = new PassThrough();
    let stop = (): void => {};
    const onInterrupt = (listener: () => void) => ((stop = listener), () => {});
    const ended = headgate(['dashboard', server.url, '--json', '--by', 'ada', '--timeout', '1s'], {
      ...{ stdout, onInterrupt },
    });
    const printed = await new Promise<string>((resolve) => {
      let text = '';
      stdout.on('data', (chunk: Buffer) => (text += chunk.toString()).endsWith('}\n') && resolve(text));
    });
    const { url } = JSON.parse(printed) as { url: string };
    const entry = await fetch(url, { redirect: 'manual' });
    const cookie = entry.headers.getSetCookie()[0]!.split(';')[0]!;
    const becomes = async (state: string) => {
      for (;;) {
        const response = await fetch(new URL('/api/now', url), { headers: { cookie } });
        const { set } = (await response.json()) as { set: { store: { state: string } } };
        if (set.store.state === state) return;
        await sleep(100);
      }
    };
    await becomes('up');
    await server.stop();
    await becomes('down');
    const again = await startServer('redis', { port: server.port });
    await becomes('up');
    stop();
    expect((await ended).code).to.equal(0);
    await again.stop();
  }).timeout(60_000);
});
