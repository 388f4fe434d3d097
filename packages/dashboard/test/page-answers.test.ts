// The questions that a screen of the page repeats.
import { expect } from 'chai';

const globals = globalThis as unknown as Record<string, unknown>;

interface PageState {
  useAnswer(ask: () => Promise<string>, inputs: unknown[], everyMs?: number): unknown;
  refresh(): void;
}

interface Shown {
  readonly value?: string;
}

/** A question that a test answers in any order. */
class Question {
  readonly answers: ((value: string) => void)[] = [];
  readonly ask = (): Promise<string> => new Promise((resolve) => this.answers.push(resolve));

  async answer(i: number, value: string): Promise<void> {
    this.answers[i]!(value);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe('an answer of the page', () => {
  const shown: Shown[] = [];
  let leave: () => void;
  let page: PageState;
  const kept = ['preact', 'preactHooks', 'htm'].map((name) => [name, globals[name]] as const);
  before(async () => {
    globals['preact'] = {};
    globals['htm'] = () => '';
    globals['preactHooks'] = {
      useState: (first: Shown) => {
        const set = (next: Shown | ((last: Shown) => Shown)) =>
          shown.push(typeof next === 'function' ? next(shown.at(-1) ?? first) : next);
        return [first, set];
      },
      useEffect: (run: () => () => void) => (leave = run()),
    };
    // The types of the page are those of a browser, which the tests do not have.
    const path: string = '../src/page/state.js';
    page = (await import(path)) as PageState;
  });
  after(() => kept.forEach(([name, value]) => (globals[name] = value)));
  beforeEach(() => void (shown.length = 0));

  const values = () => shown.flatMap(({ value }) => (value === undefined ? [] : [value]));

  it('is the newest one, whatever answer comes last', async () => {
    const question = new Question();
    page.useAnswer(question.ask, []);
    page.refresh();
    await question.answer(1, 'after the change');
    await question.answer(0, 'before the change');
    expect(values()).to.deep.equal(['after the change']);
    leave();
  });

  it('is asked again once in each interval, however often it was read again', async () => {
    const question = new Question();
    page.useAnswer(question.ask, [], 5);
    for (let i = 0; i < 5; i++) page.refresh();
    expect(question.answers).to.have.length(6);
    for (let i = 0; i < 6; i++) await question.answer(i, String(i));
    expect(values()).to.deep.equal(['5']);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(question.answers).to.have.length(7);
    leave();
    await question.answer(6, 'too late');
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(question.answers).to.have.length(7);
    expect(values()).to.deep.equal(['5']);
  });

  it('is marked as old from a change until it is read again', async () => {
    const question = new Question();
    page.useAnswer(question.ask, []);
    await question.answer(0, 'before the change');
    expect(shown.at(-1)).to.include({ value: 'before the change' }).and.not.to.have.property('isOld');
    page.refresh();
    expect(shown.at(-1)).to.include({ value: 'before the change', isOld: true });
    await question.answer(1, 'after the change');
    expect(shown.at(-1)).to.include({ value: 'after the change' }).and.not.to.have.property('isOld');
    leave();
  });
});
