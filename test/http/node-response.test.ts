// The ends of Node's responses, state by state. http/connections.test.ts tests clients against real servers.
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { nodeResponse } from 'headgate/http';

const emitter = (state: object) => Object.assign(new EventEmitter(), state);
const socketOf = (state: object = {}) => emitter({ closed: false, destroyed: false, ...state });

/** A response of HTTP/1, whose stream is undefined, or of HTTP/2. */
const responseOf = (state: object) =>
  emitter({ destroyed: false, ...state }) as unknown as ServerResponse & EventEmitter;
const over1 = (socket: object = socketOf(), state: object = {}) => responseOf({ req: { socket }, ...state });
const over2 = (stream: object) => responseOf({ stream: socketOf({ rstCode: 0, aborted: false, ...stream }) });

/** The reported ends of a response, and the function that stops listening. */
function followed(res: ServerResponse) {
  const ends: boolean[] = [];
  const stop = nodeResponse.onEnd(res, (completed) => void ends.push(completed));
  return { ends, stop };
}

describe('a response of Node', () => {
  for (const [what, res, ended] of [
    ['is under way', over1(), false],
    ['was sent, on a connection that goes on', over1(socketOf(), { destroyed: true }), true],
    ['waits behind another on a connection that is cut', over1(socketOf({ destroyed: true })), true],
    ['is under way over HTTP/2', over2({}), false],
    ['was reset over HTTP/2', over2({ closed: true }), true],
    ['has no connection, as a tool made it', responseOf({}), false],
    ['has no socket', responseOf({ req: {} }), false],
  ] as const)
    it(`${what}: it ${ended ? 'has' : 'has not'} ended`, () => {
      expect(nodeResponse.hasEnded(res)).to.equal(ended);
    });

  const tcp = (remoteAddress: string | undefined, state: object = {}) =>
    socketOf({ remoteAddress, localAddress: '127.0.0.1', ...state });
  for (const [what, res, left] of [
    ['is under way', over1(tcp('192.0.2.1')), false],
    ['is under way on a Unix socket', over1(), false],
    ['has no connection, as a tool made it', responseOf({}), false],
    ['is on a connection that was reset, before Node reports it', over1(tcp(undefined)), true],
    ['is on a connection that was closed', over1(tcp('192.0.2.1', { destroyed: true })), true],
    [
      'was sent whole',
      over1(tcp(undefined), { destroyed: true, headersSent: true, writableFinished: true }),
      false,
    ],
    ['is under way over HTTP/2', over2({}), false],
    ['was reset over HTTP/2', over2({ closed: true }), true],
    [
      'was reset over HTTP/2, which finishes the stream',
      over2({ closed: true, aborted: true, writableFinished: true }),
      true,
    ],
  ] as const)
    it(`${what}: its client ${left ? 'has' : 'has not'} left`, () => {
      expect(nodeResponse.hasLeft(res)).to.equal(left);
    });

  for (const [what, res, completed] of [
    ['on an open connection', over1(), true],
    ['that a tool made', responseOf({}), true],
    ['on a closing socket, which drops it', over1(socketOf({ destroyed: true })), false],
    ['over HTTP/2', over2({ writableFinished: true }), true],
    ['over HTTP/2, before all of it was written', over2({ writableFinished: false }), false],
    ['over HTTP/2, whose client has left', over2({ writableFinished: true, aborted: true }), false],
    ['over HTTP/2, reset without an error', over2({ writableFinished: true, rstCode: 8 }), false],
  ] as const)
    it(`that finishes ${what} was ${completed ? 'sent whole' : 'cut off'}`, () => {
      const { ends } = followed(res);
      res.emit('finish');
      expect(ends).to.deep.equal([completed]);
    });

  it('that closes was cut off, unless it had finished before', () => {
    const res = over1();
    const { ends } = followed(res);
    res.emit('close');
    expect(ends).to.deep.equal([false]);
  });

  for (const [what, req] of [
    ['a connection that reports nothing', { socket: { remoteAddress: '192.0.2.1' } }],
    ['no connection', {}],
  ] as const)
    it(`with ${what}, as on serverless platforms, ends by its own events, in any order`, async () => {
      for (const [events, completed] of [
        [['finish', 'close'], true],
        [['close', 'finish'], true],
        [['close'], false],
      ] as const) {
        const res = responseOf({ req });
        const { ends, stop } = followed(res);
        for (const event of events) res.emit(event);
        await Promise.resolve();
        expect(ends, events.join()).to.deep.equal([completed]);
        expect(stop).not.to.throw();
      }
    });

  it('learns of the end of its connection by the single listener of all its responses', () => {
    const socket = socketOf();
    const all = Array.from({ length: 20 }, () => followed(over1(socket)));
    expect(socket.listenerCount('close')).to.equal(1);
    all[0]!.stop();
    socket.emit('close');
    expect(all.map(({ ends }) => ends.length)).to.deep.equal([0, ...Array<number>(19).fill(1)]);
    expect(all[1]!.ends).to.deep.equal([false]);
  });

  it('has a single listener for all its limiters', () => {
    const res = over1();
    const all = Array.from({ length: 20 }, () => followed(res));
    for (const event of ['finish', 'close']) expect(res.listenerCount(event)).to.equal(1);
    all[0]!.stop();
    res.emit('finish');
    expect(all.map(({ ends }) => ends.length)).to.deep.equal([0, ...Array<number>(19).fill(1)]);
    for (const event of ['finish', 'close']) expect(res.listenerCount(event)).to.equal(0);
  });

  it('calls no listener that was removed', () => {
    const res = over1();
    const { ends, stop } = followed(res);
    stop();
    for (const event of ['finish', 'close']) {
      expect(res.listenerCount(event)).to.equal(0);
      res.emit(event);
    }
    expect(ends).to.deep.equal([]);
    // A mocked response of a test tool has no connection.
    expect(followed(responseOf({})).stop).not.to.throw();
  });

  it('is sent with its length', () => {
    const fields = new Map<string, unknown>();
    let sent = '';
    const res = {
      setHeader: (name: string, value: unknown) => void fields.set(name, value),
      end: (body: string) => void (sent = body),
    } as unknown as ServerResponse;
    nodeResponse.send(res, 'denied');
    expect([...fields, sent]).to.deep.equal([['Content-Length', 6], 'denied']);
  });
});
