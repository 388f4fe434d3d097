import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';

const root = new URL('../../../', import.meta.url).pathname;

async function outputOf(...args: string[]): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, ['node_modules/tsx/dist/cli.mjs', ...args], {
    cwd: root,
  });
  return stdout.trim().split('\n');
}

describe('examples of decorators', function () {
  this.timeout(60_000);

  it('standard', async () => {
    expect(await outputOf('examples/decorators-standard.ts')).to.deep.equal([
      'Oslo, Rome, Lima, Bonn',
      'sent',
      'sent',
      'in the digest',
      'sent',
      'invoice for ada / denied: quota-exceeded',
      'reminder for ada',
      '60 euros for ada / denied: quota-exceeded',
    ]);
  });

  it('legacy, in NestJS', async () => {
    const args = ['--tsconfig', 'examples/legacy/tsconfig.json', 'examples/legacy/decorators.ts'];
    expect(await outputOf(...args)).to.deep.equal([
      'tea: 9.90 for acme',
      'ordered tea and milk',
      'tea: 9.80, from the cache',
      'denied: quota-exceeded',
      'built sales / denied: quota-exceeded',
      'built stock',
      'q1-sales, q1-stock / denied: quota-exceeded',
    ]);
  });
});
