// What is read of one line, in each format.
import { expect } from 'chai';
import { lineParser, type LineOptions } from '../../src/cli/replay/line.js';
import { parseMatch } from '../../src/cli/replay/match.js';
import { parseTime } from '../../src/cli/replay/time.js';

const parser = (options: Partial<LineOptions> = {}) =>
  lineParser({ key: ['ip'], keyField: undefined, timeField: undefined, match: undefined, ...options });

const TIME = Date.UTC(2026, 9, 5, 13, 55, 36);
const json = (value: object) => JSON.stringify(value);

describe('lines of access logs', () => {
  const formats: [name: string, line: string, ms?: number][] = [
    ['Common Log Format', '192.0.2.1 - frank [05/Oct/2026:13:55:36 +0000] "GET /a?b=c HTTP/1.0" 200 2326'],
    ['another zone', '192.0.2.1 - frank [05/Oct/2026:06:25:36 -0730] "GET /a?b=c HTTP/1.0" 200 2326'],
    [
      'Combined',
      '192.0.2.1 - frank [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 2326 "http://x/" "Mozilla/4.08 [en] (Win98)"',
    ],
    [
      'nginx main',
      '192.0.2.1 - frank [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 2326 "-" "curl" "203.0.113.9"',
    ],
    [
      'Apache with virtual host',
      'www.x.org:443 192.0.2.1 - frank [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 1',
    ],
    [
      'a user with a space and a bracket',
      '192.0.2.1 - Dr. [x frank [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 1',
    ],
    ['an escaped quote', '192.0.2.1 - frank [05/Oct/2026:13:55:36 +0000] "GET /a?q=\\"x\\" HTTP/1.1" 200 1'],
    ['milliseconds', '192.0.2.1 - frank [05/Oct/2026:13:55:36.250 +0000] "GET /a HTTP/1.1" 200 1', 250],
    [
      'pino-http',
      json({
        level: 30,
        time: TIME + 7,
        req: { method: 'GET', url: '/a?x', remoteAddress: '192.0.2.1', user: 'frank' },
        res: { statusCode: 200 },
      }),
      7,
    ],
    [
      'Caddy',
      json({
        ts: (TIME + 524) / 1000,
        request: { remote_ip: '10.0.0.1', client_ip: '192.0.2.1', method: 'GET', uri: '/a' },
        user_id: 'frank',
        status: 200,
      }),
      524,
    ],
    [
      'nginx json',
      json({
        time_iso8601: '2026-10-05T15:55:36+02:00',
        remote_addr: '192.0.2.1',
        remote_user: 'frank',
        request: 'GET /a?x HTTP/1.1',
        status: '200',
      }),
    ],
    [
      'nginx json with msec',
      json({
        msec: `${TIME / 1000}.125`,
        remote_addr: '192.0.2.1',
        remote_user: 'frank',
        request_method: 'GET',
        request_uri: '/a?x',
        status: 200,
      }),
      125,
    ],
    [
      'Traefik',
      json({
        ClientHost: '192.0.2.1',
        ClientUsername: 'frank',
        RequestMethod: 'GET',
        RequestPath: '/a',
        DownstreamStatus: 200,
        StartUTC: '2026-10-05T13:55:36.5Z',
      }),
      500,
    ],
    [
      'an address with a port',
      json({
        timestamp: '2026-10-05 13:55:36',
        ip: '192.0.2.1:8080',
        user: 'frank',
        method: 'GET',
        path: '/a',
        status: 200,
      }),
    ],
  ];
  for (const [name, line, ms = 0] of formats) {
    it(name, () => {
      expect(parser()(line)).to.deep.equal({ key: '192.0.2.1', time: TIME + ms });
      const all = parser({ key: ['user', 'method', 'path'], match: parseMatch(['GET 2xx', '/a !/b']) });
      expect(all(line))
        .to.have.property('key')
        .that.matches(/frank GET \/a$/);
    });
  }

  it('keys are those of Headgate: networks of IPv6, mapped addresses as IPv4, names as they are', () => {
    const keyOf = (address: string) =>
      parser()(`${address} - - [05/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1`);
    expect(keyOf('2001:db8:1:2ff::7')).to.have.property('key', '2001:db8:1:200::/56');
    expect(keyOf('2001:DB8:1:2aa::8')).to.have.property('key', '2001:db8:1:200::/56');
    expect(keyOf('::ffff:192.0.2.1')).to.have.property('key', '192.0.2.1');
    expect(keyOf('Host.example.org')).to.have.property('key', 'host.example.org');
    expect(keyOf('unix:')).to.have.property('problem').that.contains('"unix:"');
  });

  it('a key of fields; a line without one is skipped', () => {
    const line = json({ time: TIME, ip: '192.0.2.1', req: { headers: { 'x-api-key': 'k1' } }, 'a.b': 7 });
    expect(parser({ keyField: 'req.headers.x-api-key' })(line)).to.have.property('key', 'k1');
    expect(parser({ keyField: 'ip', key: ['ip', 'a.b'] })(line)).to.have.property('key', '192.0.2.1 7');
    expect(parser({ key: ['user'] })(line)).to.equal('skipped');
    expect(parser({ keyField: 'nothing' })(line)).to.equal('skipped');
    expect(parser()(json({ level: 30, time: TIME, msg: 'server listening' }))).to.equal('skipped');
  });

  it('a field of the time', () => {
    const line = json({ time: 'soon', at: { done: TIME }, ip: '192.0.2.1' });
    expect(parser({ timeField: 'at.done' })(line)).to.have.property('time', TIME);
    expect(parser()(line)).to.have.property('problem').that.contains('--time-field');
    expect(parser({ timeField: 'time' })(line))
      .to.have.property('problem')
      .that.contains('of time');
  });

  const malformed = [
    'garbage',
    '192.0.2.1 - - [05/Oct/2026:13:55:36 +0000] "GET / HT',
    '192.0.2.1 - - [05/Foo/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1',
    '192.0.2.1 - - "GET / HTTP/1.1" 200 1',
    '{"time":1',
    '\u0000\u0001',
    '"; rm -rf / #',
  ];
  for (const line of malformed) {
    it(`malformed: ${JSON.stringify(line).slice(0, 50)}`, () =>
      expect(parser()(line)).to.have.property('problem'));
  }

  it('an odd line takes no longer than any other', () => {
    const odd = [
      '192.0.2.1 - - [05/Oct/2026:13:55:36 +0000] "'.repeat(10_000),
      `192.0.2.1 - - [05/Oct/2026:13:55:36 +0000] "${'\\\\'.repeat(200_000)}`,
      `192.0.2.1 ${'- ['.repeat(200_000)}`,
      `{${'"a":{'.repeat(100_000)}`,
    ];
    for (const line of odd) expect(parser()(line)).to.have.property('problem');
  });

  it('times: epochs in any unit, ISO with and without a zone', () => {
    for (const time of [TIME, TIME / 1000, TIME * 1000, TIME * 1e6, String(TIME), String(TIME / 1000)]) {
      expect(parseTime(time), String(time)).to.equal(TIME);
    }
    for (const time of [
      '2026-10-05T13:55:36Z',
      '2026-10-05 13:55:36',
      '2026-10-05T13:55:36,000+0000',
      '2026-10-05T11:55:36-02:00',
    ]) {
      expect(parseTime(time), time).to.equal(TIME);
    }
    for (const time of ['', 'yesterday', '2026', 17, -1, null, {}, NaN, '9999-01-01', '2026-13-01']) {
      expect(parseTime(time)).to.equal(undefined);
    }
  });

  it('filters', () => {
    const line = '192.0.2.1 - - [05/Oct/2026:13:55:36 +0000] "POST /api/x?y HTTP/1.1" 503 1';
    const passes = (...texts: string[]) => parser({ match: parseMatch(texts) })(line) !== 'skipped';
    for (const texts of [
      ['/api'],
      ['post'],
      ['5xx'],
      ['503,404'],
      ['/other /api', 'GET,POST'],
      ['!/health'],
      ['!429 /api'],
    ])
      expect(passes(...texts), texts.join()).to.be.true;
    for (const texts of [['/API'], ['GET'], ['4xx'], ['/api', 'GET'], ['!/api'], ['!5xx'], ['/api !503']])
      expect(passes(...texts), texts.join()).to.be.false;
    expect(() => parseMatch(['5**'])).to.throw('--match: "5**" is not a path, a method or a status');
  });
});
