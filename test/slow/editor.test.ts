// The view of an editor: hover texts, suggestions, and messages of the compiler for common slips.
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import ts from 'typescript';
import { root } from '../../scripts/lib/run.mjs';

const file = `${root}editor-test.ts`;
const IMPORTS = `import { createLimiter } from 'headgate';
import { rateLimit } from 'headgate/express';
`;

let code = '';
let version = 0;
const { compilerOptions } = ts.parseConfigFileTextToJson('', readFileSync(`${root}tsconfig.json`, 'utf8'))
  .config as { compilerOptions: object };
const { options } = ts.convertCompilerOptionsFromJson(
  { ...compilerOptions, noUnusedLocals: false, noUnusedParameters: false },
  root,
);
const service = ts.createLanguageService({
  getCompilationSettings: () => options,
  getScriptFileNames: () => [file],
  getScriptVersion: (name) => (name === file ? String(version) : '0'),
  getScriptSnapshot(name) {
    const text = name === file ? code : ts.sys.readFile(name);
    return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
  },
  getCurrentDirectory: () => root,
  getDefaultLibFileName: (settings) => ts.getDefaultLibFilePath(settings),
  fileExists: (name) => name === file || ts.sys.fileExists(name),
  readFile: (name) => ts.sys.readFile(name),
  readDirectory: (...args) => ts.sys.readDirectory(...args),
  directoryExists: (name) => ts.sys.directoryExists(name),
});

/** Opens a program in the editor. */
function open(statement: string): void {
  code = IMPORTS + statement;
  version++;
}

/** The hover text of an option. */
function hover(statement: string, option: string): string {
  open(statement);
  const info = service.getQuickInfoAtPosition(file, code.lastIndexOf(`${option}:`));
  return ts.displayPartsToString(info?.documentation);
}

/** The suggestions between the quotes of an empty text. */
function suggestions(statement: string): readonly string[] {
  open(statement);
  const entries = service.getCompletionsAtPosition(file, code.lastIndexOf("''") + 1, {})?.entries ?? [];
  return entries.map(({ name }) => name);
}

/** The compiler's message. */
function message(statement: string): string {
  open(statement);
  const [error] = service.getSemanticDiagnostics(file);
  return ts.flattenDiagnosticMessageText(error?.messageText, '\n');
}

describe('an editor', function () {
  this.timeout(120_000);

  it('shows the meaning of tiers, and the tiers that a request may have', () => {
    const tiers = "tiers: { free: '1/1m', pro: '9/1m' }";
    expect(hover(`rateLimit({ ${tiers}, tier: () => 'pro' })`, 'tiers')).to.match(/^Named sets of policies/);
    expect(hover(`rateLimit({ ${tiers}, tier: () => 'pro' })`, 'tier')).to.match(/^The request's tier/);
    expect(message(`rateLimit({ ${tiers}, tier: () => 'gold' })`)).to.contain("Property 'gold' is missing");
  });

  for (const make of ['rateLimit', 'createLimiter']) {
    it(`shows the meaning of the fields of policies in ${make}`, () => {
      expect(hover(`${make}({ limit: 100, window: '1m' })`, 'limit')).to.match(/^Units per window/);
      expect(hover(`${make}({ limit: 100, window: '1m' })`, 'window')).to.match(/length of the window/);
      const fixed = `${make}({ policies: [{ algorithm: 'fixed-window', limit: 1, window: '1m' }] })`;
      expect(hover(fixed, 'algorithm')).to.match(/2 x `limit`/);
      expect(hover(fixed, 'window')).to.match(/length of the window/);
      const slots = `${make}({ algorithm: 'concurrency', limit: 2, lease: '1m' })`;
      expect(hover(slots, 'algorithm')).to.match(/held at a time/);
      expect(hover(slots, 'limit')).to.match(/^Slots/);
      const month = `{ algorithm: 'calendar', limit: 9, period: 'month', anchor: 3 }`;
      expect(hover(`${make}(${month})`, 'anchor')).to.match(/^The start of the period/);
    });

    it(`suggests durations and algorithms in ${make}`, () => {
      expect(suggestions(`${make}({ limit: 1, window: '' })`)).to.include.members(['10s', '1m', '15m', '1h']);
      expect(suggestions(`${make}({ limit: 1, window: '1m', algorithm: '' })`)).to.include('token-bucket');
    });

    it(`names the cause of common slips in ${make}`, () => {
      const noWindow = /'window' is missing .* required in type 'SlidingWindowPolicy'/;
      expect(message(`${make}({ limit: 100 })`)).to.match(noWindow);
      expect(message(`${make}({ policies: [{ limit: 100 }] })`)).to.match(noWindow);
      expect(message(`${make}({ algorithm: 'gcra', limit: 9 })`)).to.match(/'window' is missing/);
      const both = message(`${make}({ limit: 100, window: '1m', policies: ['1/1s'] })`);
      expect(both).to.contain('EitherLimitOrPolicies');
      const foreign = message(`${make}({ algorithm: 'fixed-window', limit: 1, window: '1m', burst: 2 })`);
      expect(foreign).to.contain('NotOfThisAlgorithm');
    });

    it(`takes options from a variable in ${make}`, () => {
      expect(message(`const quota = { limit: 5, window: '1m' };\n${make}(quota)`)).to.equal('');
      expect(message(`declare const text: string;\n${make}(text)`)).to.equal('');
    });
  }

  it('shows the meaning of callbacks, with their arguments', () => {
    const denied = `rateLimit({ limit: 1, window: '1m', handler: (req, res, decision) => res.json(decision.reason) })`;
    expect(hover(denied, 'handler')).to.contain('handler(req, res, decision)');
    expect(message(denied)).to.equal('');
  });
});
