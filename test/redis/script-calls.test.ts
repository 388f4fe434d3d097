// The number of times a call is sent, and a call's deadlines, with scripted server answers and a clock of the test.
import { expect } from 'chai';
import { HeadgateError } from 'headgate';
import { performance } from '../../src/common/real-time.js';
import { newCall, type PolicySet, type Subject } from '../../src/contract/store.js';
import type { Commands, Done, ScriptCall } from '../../src/stores/redis/clients/commands.js';
import { ScriptCalls } from '../../src/stores/redis/calls/script-calls.js';

const script = { source: 'return 1', sha: 'sha' };
const TIMEOUT = 100;
const OVER = '1';

const noScript = () => new Error('NOSCRIPT No matching script.');
const late = (now: number) => `HEADGATE_LATE ${now}`;
const turn = () => new Promise(setImmediate);

describe('script calls', () => {
  const { now } = performance;
  let time: number;
  /** The written commands, with the function that takes the answer. */
  let sent: { command: string; text: string; deadline: string; done: Done }[];
  let beforeWriting: () => void;
  let isReady: boolean;
  let connected: Promise<void>;
  let commands: Commands;
  let calls: ScriptCalls;

  beforeEach(() => {
    time = 1000;
    performance.now = () => time;
    [sent, isReady] = [[], true];
    commands = {
      cluster: false,
      ready: () => isReady,
      connected: () => connected,
      servers: () => [],
      run: (command: string, text: string, call: ScriptCall) => {
        beforeWriting();
        sent.push({ command, text, deadline: call.deadline(), done: (...result) => call.done(...result) });
      },
    } as unknown as Commands;
    calls = new ScriptCalls(commands, undefined);
  });

  afterEach(() => {
    performance.now = now;
  });

  /** @param isLeft whether the caller gives up while the call is on its way */
  const ask = (count = 1, isLeft = false) => {
    const callers = Array.from({ length: count }, newCall);
    const subjects = callers.map((call): Subject => ({ set: {} as PolicySet, key: 'k', call }));
    beforeWriting = () => void (isLeft && (callers[0]!.abandoned = true));
    const question = { callers, outcome: 'none' as unknown };
    void calls.run({ script, keys: ['k'], args: [''], timeout: TIMEOUT, asked: subjects }).then(
      (reply) => (question.outcome = reply),
      ({ code, message }: HeadgateError) => (question.outcome = code ?? message),
    );
    return question;
  };

  const written = () => sent.map(({ command, deadline }) => `${command} ${deadline}`);
  const answer = (error: Error | undefined, reply?: unknown) => sent.at(-1)!.done(error, reply);

  /** Introduces the server: its clock is exactly 9,000 ms ahead, and it knows the script. */
  function introduce(): void {
    ask();
    answer(undefined, late(10_000));
    answer(undefined, [10_000_000]);
    sent.length = 0;
  }

  it('bring the script once, and learn the server’s time from its refusal; others wait meanwhile', async () => {
    const [first, second] = [ask(), ask()];
    expect(written()).to.deep.equal([`eval ${OVER}`]);
    expect(sent[0]!.text).to.equal(script.source);
    answer(undefined, late(10_000));
    expect(written()).to.deep.equal([`eval ${OVER}`, 'evalsha 10100', 'evalsha 10100']);
    expect(sent[1]!.text).to.equal(script.sha);
    expect(first.callers[0]!.until).to.equal(1100);
    for (const [i, { done }] of sent.slice(1).entries()) done(undefined, [10_000_000, i]);
    await turn();
    expect([first.outcome, second.outcome]).to.deep.equal([
      [10_000_000, 0],
      [10_000_000, 1],
    ]);
  });

  it('have a deadline from the moment of writing, and keep it when they are sent again', async () => {
    introduce();
    time = 1500;
    const question = ask(2);
    expect(question.callers.map(({ until }) => until)).to.deep.equal([1600, 1600]);
    time = 1599;
    answer(noScript());
    time = 1600;
    answer(new Error('TRYAGAIN Multiple keys request during rehashing of slot'));
    for (const end = Date.now() + 5000; sent.length < 3 && Date.now() < end;) await turn();
    // The time of the second call was over when it was written, so its deadline begins anew.
    expect(written()).to.deep.equal(['evalsha 10600', 'eval 10600', 'evalsha 10700']);
    answer(undefined, []);
    await turn();
    expect(question.outcome).to.deep.equal([]);
  });

  it('end with their time while their slot is moved, unless this process was busy', async () => {
    const tryAgain = 'TRYAGAIN Multiple keys request during rehashing of slot';
    const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
    introduce();
    const question = ask();
    time = 1098;
    answer(new Error(tryAgain));
    time = 1103;
    await pause();
    expect(written()).to.deep.equal(['evalsha 10100']);
    expect(question.outcome).to.equal(tryAgain);
    sent.length = 0;
    const other = ask();
    time = 1198;
    answer(new Error(tryAgain));
    time = 1250;
    await pause();
    expect(written()).to.deep.equal(['evalsha 10203', 'evalsha 10350']);
    answer(undefined, []);
    await turn();
    expect(other.outcome).to.deep.equal([]);
  });

  it('are sent again once, if they reached the server too late although its time was known', async () => {
    introduce();
    const question = ask();
    answer(undefined, late(20_000));
    expect(written()).to.deep.equal(['evalsha 10100', 'evalsha 20100']);
    answer(undefined, late(30_000));
    await turn();
    expect(question.outcome).to.equal('HEADGATE_PROCESS_LATE');
    expect(sent).to.have.length(2);
  });

  it('bring the script again if the server has lost it, in one call, and then each alone if that does not help', async () => {
    introduce();
    const all = [ask(), ask(), ask()];
    for (const { done } of sent.splice(0)) done(noScript());
    expect(written()).to.deep.equal(['eval 10100']);
    answer(undefined, [10_000_000]);
    expect(written().splice(1)).to.deep.equal(['evalsha 10100', 'evalsha 10100']);
    for (const { done } of sent.splice(0).splice(1)) done(noScript());
    expect(written()).to.deep.equal(['eval 10100', 'eval 10100']);
    for (const { done } of sent) done(undefined, [10_000_000]);
    await turn();
    for (const { outcome } of all) expect(outcome).to.deep.equal([10_000_000]);
    expect(sent).to.have.length(2);
  });

  it('of a cluster bring the script to each server that lacks it, and do not wait for each other', async () => {
    Object.assign(commands, { cluster: true });
    calls = new ScriptCalls(commands, undefined, 'a');
    introduce();
    const all = [ask(), ask()];
    for (const { done } of sent.splice(0)) done(noScript());
    expect(written()).to.deep.equal(['eval 10100', 'eval 10100']);
    for (const { done } of sent) done(undefined, [10_000_000]);
    await turn();
    for (const { outcome } of all) expect(outcome).to.deep.equal([10_000_000]);
    ask();
    expect(written().at(-1)).to.equal('evalsha 10100');
  });

  it('are not sent once all their questions are abandoned', async () => {
    introduce();
    const question = ask(2);
    const { callers } = question;
    callers[0]!.abandoned = true;
    answer(noScript());
    expect(written()).to.deep.equal(['evalsha 10100', 'eval 10100']);
    callers[1]!.abandoned = true;
    answer(undefined, late(20_000));
    await turn();
    expect(question.outcome).to.equal('HEADGATE_PROCESS_LATE');
    expect(sent).to.have.length(2);
  });

  it('have a past deadline if no caller is waiting when they are written', async () => {
    introduce();
    const question = ask(1, true);
    expect(written()).to.deep.equal([`evalsha ${OVER}`]);
    answer(undefined, late(10_000));
    await turn();
    expect(question.outcome).to.equal('HEADGATE_PROCESS_LATE');
    expect(question.callers[0]!.until).to.equal(0);
  });

  it('wait for the connection, and fail with its error', async () => {
    isReady = false;
    connected = Promise.resolve();
    const waiting = ask();
    expect(sent).to.have.length(0);
    await turn();
    expect(sent).to.have.length(1);
    answer(new Error('READONLY'));
    connected = Promise.reject(new HeadgateError('HEADGATE_STORE_AWAY', 'refused'));
    const refused = ask();
    isReady = true;
    commands.run = () => {
      throw new Error('closed');
    };
    const thrown = ask();
    await turn();
    const outcomes = [waiting, refused, thrown].map(({ outcome }) => outcome);
    expect(outcomes).to.deep.equal(['READONLY', 'HEADGATE_STORE_AWAY', 'closed']);
  });

  it('that a server cannot run fail with the missing command', async () => {
    introduce();
    const question = ask();
    answer(new Error("ERR unknown command 'EVALSHA'"));
    await turn();
    expect(question.outcome).to.equal('HEADGATE_STORE_ERROR');
    expect(sent).to.have.length(1);
  });

  it('bring the script again after a lost connection, because the server may have lost it', async () => {
    Object.assign(commands, { losses: 0 });
    introduce();
    ask();
    answer(undefined, [10_000_000]);
    Object.assign(commands, { losses: 1 });
    ask();
    answer(undefined, [10_000_000]);
    ask();
    expect(written()).to.deep.equal(['evalsha 10100', 'eval 10100', 'evalsha 10100']);
  });

  it('with a test clock have no deadline: each sends its step, later than the step before', () => {
    let at = Math.ceil(performance.timeOrigin) + 5000;
    calls = new ScriptCalls(commands, () => at);
    ask();
    answer(undefined, []);
    ask();
    at++;
    ask();
    const first = 1000 * (at - 1);
    expect(written()).to.deep.equal([`eval -${first}`, `evalsha -${first + 1}`, `evalsha -${first + 1000}`]);
  });

  it('with a test clock in the past are refused', async () => {
    calls = new ScriptCalls(commands, () => 5);
    const question = ask();
    await turn();
    expect([question.outcome, sent]).to.deep.equal(['HEADGATE_INVALID_OPTION', []]);
  });
});
