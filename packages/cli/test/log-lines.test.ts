// The values that are read from a line of each format.
import { expect } from 'chai';
import { loggedKeys } from '../src/replay/dimensions.js';
import { LineReader, type LineOptions } from '../src/replay/line.js';
import { parseMatch } from '../src/replay/match.js';
import { parseTime } from '../src/replay/time.js';

function parser(options: Partial<LineOptions> = {}) {
  const reader = new LineReader({
    keys: loggedKeys(),
    keyField: undefined,
    match: undefined,
    subnet: 56,
    trustedHops: undefined,
    ...options,
  });
  return (line: string) => reader.read(line);
}

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
      'Apache with the address of the virtual host',
      '127.0.1.1:80 192.0.2.1 - frank [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 1',
    ],
    [
      'nginx with $msec',
      `192.0.2.1 - frank [${(TIME + 250) / 1000}0] "GET /a HTTP/1.1" 200 1 "-" "curl"`,
      250,
    ],
    [
      'nginx with $time_iso8601',
      '192.0.2.1 - frank [2026-10-05T15:55:36+02:00] "GET /a HTTP/1.1" 200 1 "-" "curl"',
    ],
    [
      'a zone of whole hours',
      json({
        time: '2026-10-05 15:55:36.250+02',
        method: 'GET',
        path: '/a',
        status: 200,
        client_ip: '192.0.2.1',
        user: 'frank',
      }),
      250,
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
      const all = parser({
        keys: loggedKeys(['user method path']),
        match: parseMatch(['GET 2xx', '/a !/b']),
      });
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
    expect(parser({ keyField: 'ip', keys: loggedKeys(['ip a.b']) })(line)).to.have.property(
      'key',
      '192.0.2.1 7',
    );
    expect(parser({ keys: loggedKeys(['user']) })(line)).to.equal('skipped');
    expect(parser({ keyField: 'nothing' })(line)).to.equal('skipped');
    expect(parser()(json({ level: 30, time: TIME, msg: 'server listening' }))).to.equal('skipped');
  });

  it('a line without a time: the problem names the fields that were tried', () => {
    const line = json({ ip: '192.0.2.1', when: TIME });
    expect(parser()(line)).to.have.property('problem').that.contains('time, timestamp, ts, @timestamp');
    expect(parser({ fields: { time: 'at' } })(line))
      .to.have.property('problem')
      .that.contains('in at;');
    expect(parser({ fields: { time: 'when' } })(line)).to.have.property('time', TIME);
  });

  describe('lists as in X-Forwarded-For', () => {
    const common = (list: string) => `${list} - - [05/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1`;
    const keyOf = (line: string, options: Partial<LineOptions> = {}) =>
      (parser(options)(line) as { key?: string }).key;

    it('the client is the last whose address is not private, also behind a virtual host', () => {
      const cases = {
        '1.2.3.4, 10.9.9.9': '1.2.3.4',
        '1.2.3.4,10.9.9.9': '1.2.3.4',
        '6.6.6.6, 1.2.3.4, 10.9.9.9, 192.168.0.1, fd00::1': '1.2.3.4',
        'www.x.org:443 1.2.3.4, 10.9.9.9': '1.2.3.4',
        '10.1.1.1, 10.9.9.9': '10.1.1.1',
        'unknown, 10.1.1.1, 10.9.9.9': '10.1.1.1',
        '2a02:db8:1:2ff::7, 10.9.9.9': '2a02:db8:1:200::/56',
        '[2a02:db8:1:2ff::7]:443, 10.9.9.9:80': '2a02:db8:1:200::/56',
      };
      for (const [list, key] of Object.entries(cases)) expect(keyOf(common(list)), list).to.equal(key);
    });

    it('--trusted-hops counts the proxies from the end, as trust proxy does', () => {
      const list = common('6.6.6.6, 1.2.3.4, 8.8.8.8');
      const keys = [1, 2, 3, 4].map((trustedHops) => keyOf(list, { trustedHops }));
      expect(keys).to.deep.equal(['8.8.8.8', '1.2.3.4', '6.6.6.6', '6.6.6.6']);
      expect(keyOf(common('1.2.3.4'), { trustedHops: 2 })).to.equal('1.2.3.4');
      // Text that a client wrote is not a client.
      const forged = parser({ trustedHops: 2 })(common('me, 8.8.8.8'));
      expect(forged).to.have.property('problem').that.contains('"me, 8.8.8.8"');
    });

    it('in fields of JSON, as text or as an array', () => {
      const field = (value: unknown) => json({ time: TIME, headers: { 'x-forwarded-for': value } });
      const options = { keyField: 'headers.x-forwarded-for' };
      for (const value of ['1.2.3.4, 10.9.9.9', ['1.2.3.4, 10.9.9.9'], ['1.2.3.4', '10.9.9.9']]) {
        expect(keyOf(field(value), options)).to.equal('1.2.3.4');
        expect(keyOf(field(value), { ...options, trustedHops: 1 })).to.equal('10.9.9.9');
      }
      expect(keyOf(json({ time: TIME, client_ip: '1.2.3.4, 10.9.9.9' }))).to.equal('1.2.3.4');
      expect(keyOf(field('Key,With,Commas'), options)).to.equal('Key,With,Commas');
    });
  });

  it('a key of a field is taken as it is, but for addresses', () => {
    const keyOf = (id: string) => parser({ keyField: 'id' })(json({ time: TIME, id }));
    expect(keyOf('AbC')).to.have.property('key', 'AbC');
    expect(keyOf('2001:DB8::1')).to.have.property('key', '2001:db8::/56');
  });

  it('the length of the networks of IPv6 can be chosen', () => {
    const line = json({ time: TIME, ip: '2001:db8:1:2ff::7' });
    expect(parser({ subnet: 64 })(line)).to.have.property('key', '2001:db8:1:2ff::/64');
    expect(parser({ subnet: 128 })(line)).to.have.property('key', '2001:db8:1:2ff::7');
  });

  it('"-" is no client', () => {
    expect(parser()('- - - [05/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1')).to.equal('skipped');
    expect(parser()(json({ time: TIME, ip: '-' }))).to.equal('skipped');
  });

  describe('of AWS balancers', () => {
    const application =
      'https 2026-10-05T13:55:37.186641Z app/lb/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 ' +
      '"GET https://www.example.com:443/a/b?c=d HTTP/1.1" "curl \\x22 7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x ' +
      '"Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/1" 1 ' +
      '2026-10-05T13:55:36.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1';
    const classic =
      '2026-10-05T13:55:36.945958Z my-lb 192.0.2.1:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 ' +
      '"GET http://www.example.com:80/a/b HTTP/1.1" "curl/7.38.0" - -';

    it('Application Load Balancer: the time is when the request came', () => {
      expect(parser()(application)).to.deep.equal({ key: '192.0.2.1', time: TIME + 364 });
      const all = parser({ keys: loggedKeys(['ip method path']), match: parseMatch(['2xx']) });
      expect(all(application)).to.have.property('key', '192.0.2.1 GET /a/b');
    });

    it('one that no target has answered, and one of IPv6', () => {
      const failed = application
        .replace('10.0.0.1:80 0.086 0.048 0.037 200 200', '- -1 -1 -1 503 -')
        .replace('192.0.2.1:2817', '[2001:db8:1:2ff::7]:2817');
      expect(parser({ match: parseMatch(['5xx']) })(failed)).to.have.property('key', '2001:db8:1:200::/56');
    });

    it('Classic', () => {
      expect(parser()(classic)).to.deep.equal({ key: '192.0.2.1', time: TIME + 945 });
    });
  });

  describe('W3C logs', () => {
    const cloudFront = [
      '#Version: 1.0',
      '#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) x-forwarded-for',
      '2026-10-05\t13:55:36\tFRA2\t392\t192.0.2.1\tGET\td1.cloudfront.net\t/a\t200\t-\tMozilla%20x\t1.2.3.4,%20',
      '2026-10-05\t13:55:37\tFRA2\t392\t-\tGET\td1.cloudfront.net\t/a\t200\t-\t-\t5.6.7.8',
    ];
    const iis = [
      '#Software: Microsoft Internet Information Services 10.0',
      '#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken',
      '2026-10-05 13:55:36 10.0.0.1 POST /a x=1 443 Frank 192.0.2.1 Mozilla/5.0+(Windows) 200 15',
    ];
    const read = (lines: readonly string[], options: Partial<LineOptions> = {}) => lines.map(parser(options));

    it('CloudFront', () => {
      const expected = { key: '192.0.2.1', time: TIME };
      expect(read(cloudFront)).to.deep.equal(['skipped', 'skipped', expected, 'skipped']);
      // Of the middle of a log.
      expect(read(cloudFront.slice(2))).to.deep.equal([expected, 'skipped']);
      const options = { keys: loggedKeys(['method path']), match: parseMatch(['200']) };
      expect(read(cloudFront, options)[2]).to.have.property('key', 'GET /a');
      expect(read(cloudFront, { keyField: 'x-forwarded-for' })[3]).to.have.property('key', '5.6.7.8');
    });

    it('lists of addresses, as CloudFront and IIS write their spaces', () => {
      for (const list of ['5.6.7.8,%2010.0.0.1', '9.9.9.9,+5.6.7.8,+10.0.0.1', '5.6.7.8,10.0.0.1']) {
        const lines = ['#Fields: date time x-forwarded-for', `2026-10-05 13:55:36 ${list}`];
        expect(read(lines, { keyField: 'x-forwarded-for' })[1]).to.have.property('key', '5.6.7.8');
      }
    });

    it('IIS', () => {
      expect(read(iis)[2]).to.deep.equal({ key: '192.0.2.1', time: TIME });
      expect(read(iis, { keys: loggedKeys(['user method path s-port']) })[2]).to.have.property(
        'key',
        'Frank POST /a 443',
      );
    });

    it('other lines beside them', () => {
      const odd = ['# a comment', '#Fields', '2026-10-05 13:55:36 too short', '192.0.2.1'];
      for (const each of read([...iis, ...odd]).slice(3)) expect(each).to.have.property('problem');
    });
  });

  it('a field of the time', () => {
    const line = json({ time: 'soon', at: { done: TIME }, ip: '192.0.2.1' });
    expect(parser({ fields: { time: 'at.done' } })(line)).to.have.property('time', TIME);
    expect(parser()(line)).to.have.property('problem').that.contains('--time-field');
    expect(parser({ fields: { time: 'time' } })(line))
      .to.have.property('problem')
      .that.contains('in time;');
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
      '1, '.repeat(300_000),
      `${'1,'.repeat(300_000)}1 - - [05/Oct/2026:`,
      `${'1, '.repeat(100_000)}1 - - [05/Oct/2026:`,
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
      '2026-10-05 15:55:36 +0200',
      '2026-10-05T15:55:36 +02:00',
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
