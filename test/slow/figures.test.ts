// docs/figures.json is the source of all measured figures: pages quote it, and each figure names its run.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import manifest from '../../package.json' with { type: 'json' };
import { root } from '../../scripts/lib/run.mjs';

interface Figures {
  readonly runs: Readonly<Record<string, { date: string; command: string; machine: string }>>;
  readonly figures: readonly { what: string; value: string | readonly string[]; run: string }[];
  /** Numbers with a unit that follow from the code or belong to an example, with their meaning. */
  readonly constants: Readonly<Record<string, string>>;
}

const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const { runs, figures, constants } = JSON.parse(read('docs/figures.json')) as Figures;
const valuesOf = ({ value }: Figures['figures'][number]): readonly string[] => [value].flat();

/** This page shows its runs itself: each table has its date and command. */
const OF_RUNS = ['docs/contributing/benchmarks.md'];

/** Tables of numbers that nobody measured: examples, options, and sums. */
const COMPUTED = ['docs/versions.md # Versions: what is tested, what is expected to work'];

const pages = [
  ...['README.md', 'SECURITY.md', 'CONTRIBUTING.md'],
  ...readdirSync(join(root, 'packages')).map((name) => `packages/${name}/README.md`),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.md') && !file.startsWith('api/'))
    .map((file) => `docs/${file}`),
];

const FIGURE =
  /\d[\d,._]*(?: to \d[\d,._]*)? (?:µs|ns|bytes|kB|MB|GB|times(?! the limit| a)|decisions a second)(?!\w)/g;

/** The figures in the text of a page, without its programs. */
function figuresIn(text: string): string[] {
  return text.replaceAll(/^```.*?^```$/gms, '').match(FIGURE) ?? [];
}

/** The tables of measurements in a text, as the text of their sections. */
function measuredSections(text: string): string[] {
  return text.split(/^(?=#)/m).filter((section) => {
    const cells = section.split('\n').flatMap((line) => (line.startsWith('|') ? line.split('|') : []));
    return cells.filter((cell) => /^ *\d[\d,.]*(?: (?:to \d[\d,.]*|µs|ms|s|x|%))* *$/.test(cell)).length >= 6;
  });
}

describe('the figures of the docs', () => {
  it('are those of docs/figures.json', () => {
    const known = new Set([...Object.keys(constants), ...figures.flatMap(valuesOf)]);
    const unknown = pages
      .filter((page) => !OF_RUNS.includes(page))
      .flatMap((page) => figuresIn(read(page)).map((figure) => [page, figure] as const))
      .filter(([, figure]) => !known.has(figure))
      .map(([page, figure]) => `${page}: ${figure} is not in docs/figures.json`);
    expect(unknown).to.deep.equal([]);
  });

  it('are all quoted', () => {
    const text = pages.map(read).join('\n');
    const quoted = [...figures.flatMap(valuesOf), ...Object.keys(constants)];
    expect(quoted.filter((figure) => !text.includes(figure))).to.deep.equal([]);
  });

  it('have a date, a command that exists, and a machine', () => {
    expect(figures.map(({ run }) => run)).to.include.members(Object.keys(runs));
    for (const { what, run } of figures) expect(runs, what).to.have.property(run);
    for (const { date, command, machine } of Object.values(runs)) {
      expect(Number.isNaN(Date.parse(date)), date).to.equal(false);
      expect(machine).to.match(/\w/);
      const [, script] = /^npm run (\S+)/.exec(command) ?? [];
      const file = / ([\w/]+\.ts)/.exec(command)?.[1] ?? '';
      expect(
        script === undefined ? existsSync(join(root, file)) : script in manifest.scripts,
        command,
      ).to.equal(true);
    }
  });

  it('stand in tables with a date and a command', () => {
    const dated = /\b\d{1,2} (?:October|November|December) 20\d\d|\b20\d\d-\d\d-\d\d\b/;
    const command = /npm run [\w:-]+|scripts\/docs\/\w+\.ts|by the same script/;
    const sections = pages.flatMap((page) =>
      measuredSections(read(page)).map((section) => ({ page, section, title: section.split('\n', 1)[0] })),
    );
    expect(sections).to.have.length.greaterThan(3);
    const bare = sections.filter(({ section }) => !dated.test(section) || !command.test(section));
    expect(bare.map(({ page, title }) => `${page} ${title}`)).to.have.members(COMPUTED);
  });
});
