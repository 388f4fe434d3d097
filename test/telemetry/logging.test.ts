// The recipes for loggers in docs/observability.md run.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect } from 'chai';
import ts from 'typescript';
import { TYPESCRIPT } from '../../scripts/lib/run.mjs';

const root = new URL('../../', import.meta.url).pathname;
const page = readFileSync(`${root}docs/observability.md`, 'utf8');

/** Runs the block that imports a logger, with further code, and returns the log. */
async function logOf(logger: string, more: string): Promise<Record<string, unknown>[]> {
  const block = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].find(([, code]) =>
    code!.includes(`from '${logger}'`),
  );
  const options = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(`${block![1]!}\n${more}`, { compilerOptions: options });
  const args = [...TYPESCRIPT, '--input-type=module', '--eval', outputText];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('the recipe for', () => {
  it('pino logs denials and changes', async () => {
    const log = await logOf(
      'pino',
      `import { createLimiter } from 'headgate';
       const limiter = createLimiter({ name: 'api', limit: 1, window: '1m', ban: {} });
       for (let i = 0; i < 2; i++) await limiter.consume('ada');
       await limiter.ban('ada', '1h', { by: 'grace', reason: 'abuse' });`,
    );
    expect(log).to.have.length(2);
    expect(log[0]).to.include({ limiter: 'api', key: 'ada', reason: 'quota-exceeded', msg: 'denied' });
    expect(log[1]).to.include({ change: 'ban', key: 'ada', by: 'grace', reason: 'abuse', msg: 'changed' });
  });

  it('winston logs denials', async () => {
    const log = await logOf('winston', '');
    expect(log).to.have.length(1);
    expect(log[0]).to.include({ level: 'warn', message: 'denied', key: 'ada', reason: 'quota-exceeded' });
  });
});
