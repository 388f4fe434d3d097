// The outputs in docs/find-limits.md are the outputs of the commands on the log of that page. A line `...` stands for omitted lines.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { root } from '../../../scripts/lib/run.mjs';
import { headgate } from './cli.js';
import { LogDirectory } from './logs.js';

const page = readFileSync(join(root, 'docs/find-limits.md'), 'utf8');
const examples = [...page.matchAll(/^```console\n\$ headgate (.*)\n([^]*?)^```$/gm)];

describe('docs/find-limits.md', () => {
  let logs: LogDirectory;
  before(() => {
    logs = new LogDirectory();
    const [, lines] = /node scripts\/access-log\.mjs (\d+) > access\.log/.exec(page)!;
    const output = execFileSync(process.execPath, ['scripts/access-log.mjs', lines!], {
      cwd: root,
      maxBuffer: 2 ** 28,
    });
    logs.write('access.log', output);
  });
  after(() => logs.remove());

  for (const [, command, shown] of examples) {
    it(command!, async () => {
      const words = [...command!.matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word);
      const { code, stdout, stderr } = await headgate(words, { cwd: logs.path });
      expect(code, stderr).to.equal(0);
      const literal = shown!.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&');
      expect(stdout).to.match(new RegExp(`^${literal.replaceAll(/^(?:\\\.){3}\n/gm, '[^]*')}$`));
    });
  }

  it('shows both commands', () => {
    expect(examples.map(([, command]) => command!.split(' ')[0])).to.include.members(['suggest', 'replay']);
  });
});
