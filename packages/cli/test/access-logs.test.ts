// The logs of real loggers and proxies: each request counts once, with its own time, client, path and status.
import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { loggedKeys } from '../src/replay/dimensions.js';
import { LineReader, type Entry, type LineOptions, type Parsed } from '../src/replay/line.js';
import { parseMatch } from '../src/replay/match.js';
import { headgate } from './cli.js';
import { LogDirectory } from './logs.js';

const DEFAULTS: LineOptions = {
  keys: loggedKeys(),
  keyField: undefined,
  match: undefined,
  subnet: 56,
  trustedHops: undefined,
  details: true,
};

const linesOf = (name: string): string[] =>
  readFileSync(new URL(`access-logs/${name}.txt`, import.meta.url), 'utf8')
    .trimEnd()
    .split('\n');

const isEntry = (parsed: Parsed): parsed is Entry => typeof parsed === 'object' && 'time' in parsed;

/** The requests of a log, in the order in which they are known. */
function requestsOf(lines: readonly string[], options: Partial<LineOptions> = {}): Entry[] {
  const reader = new LineReader({ ...DEFAULTS, ...options });
  return [...lines.map((line) => reader.read(line)), ...reader.rest()].filter(isEntry);
}

const shown = (entries: readonly Entry[]): string[] =>
  entries.map(({ key, path, status }) => `${JSON.stringify(key)} ${path} ${status}`);

const item = '"127.0.0.1" /items 200';
const four = [item, '"127.0.0.1" /fail 500', '"127.0.0.1" /limited 429', '"127.0.0.1" /late 200'];

describe('logs of real loggers', () => {
  const logs: Record<string, readonly string[]> = {
    'pino-http': four,
    'nestjs-pino': four.slice(0, 3),
    fastify: [...four, '"127.0.0.1" /bad 400', '"127.0.0.1" /missing 404'],
    'morgan-combined': four,
    'winston-morgan': four,
    'winston-fields': four,
    'ecs-morgan': four,
    'ecs-pino': four,
    caddy: [item, '"127.0.0.1" /up 502', '"127.0.0.1" /limited 429'],
  };
  for (const [name, expected] of Object.entries(logs)) {
    it(`${name}: each request once`, () => {
      const entries = requestsOf(linesOf(name));
      expect(shown(entries)).to.deep.equal(expected);
      const day = Date.UTC(2026, 10, 27);
      for (const { time } of entries) expect(time - day).to.be.within(36e6, 38e6);
    });

    it(`${name}: --match !429 leaves out the denied one`, () => {
      const entries = requestsOf(linesOf(name), { match: parseMatch(['!429']) });
      expect(shown(entries)).to.deep.equal(expected.filter((each) => !each.endsWith('429')));
    });
  }

  it('of Fastify, a request has the time of its first line', () => {
    expect(requestsOf(linesOf('fastify'))[0]!.time).to.equal(1_795_774_335_856);
  });

  it('express-winston logs no client, unless a field is named', () => {
    expect(requestsOf(linesOf('express-winston'))).to.deep.equal([]);
    const entries = requestsOf(linesOf('express-winston'), { keyField: 'meta.req.headers.host' });
    expect(entries.map(({ path, status }) => `${path} ${status}`)).to.deep.equal([
      '/items 200',
      '/fail 500',
      '/limited 429',
      '/late 200',
    ]);
  });

  it('formats of morgan without client and time are named', () => {
    const reader = new LineReader(DEFAULTS);
    const lines = [
      ...linesOf('morgan-tiny'),
      '127.0.0.1 - GET /items?page=2 HTTP/1.1 200 2 - 0.165 ms',
      '\u001b[0mGET /items?page=2 \u001b[32m200\u001b[0m 0.129 ms - 2\u001b[0m',
    ];
    for (const line of lines)
      expect(reader.read(line), line).to.have.property('problem').that.contains("'combined'");
  });

  it('a process that starts again counts its requests from 1 again', () => {
    for (const name of ['pino-http', 'nestjs-pino', 'fastify']) {
      const lines = linesOf(name);
      expect(requestsOf([...lines, ...lines]), name).to.have.length(2 * logs[name]!.length);
    }
  });

  it('two processes whose requests have the same ids', () => {
    const [one, other] = [
      linesOf('fastify'),
      linesOf('fastify').map((line) => line.replace('"web-1"', '"web-2"')),
    ];
    const mixed = one.flatMap((line, i) => [line, other[i]!]);
    expect(requestsOf(mixed)).to.have.length(12);
  });

  it('a line about an error and the end of its request count once', () => {
    const line = (ms: number, more: object) =>
      JSON.stringify({ time: 1e12 + ms, reqId: 'r', ip: '10.0.0.1', ...more });
    const error = line(0, { status: 500, msg: 'failed' });
    const end = line(20, { status: 500, responseTime: 20 });
    expect(requestsOf([error, end])).to.have.length(1);
    // Other requests: the same id much later, of another client, or after the end.
    expect(requestsOf([error, line(11_000, { status: 500, responseTime: 20 })])).to.have.length(2);
    expect(requestsOf([error, end.replace('10.0.0.1', '10.0.0.2')])).to.have.length(2);
    expect(requestsOf([error, end, end])).to.have.length(2);
  });

  it('options of fields are refused for lines without named fields, and noted if some lines have none', () => {
    const text = '192.0.2.1 - - [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 1';
    const named = JSON.stringify({ time: 1_791_208_536_000, ip: '192.0.2.1', key: 'k' });
    const doubtsOf = (lines: readonly string[], options: Partial<LineOptions>) => {
      const reader = new LineReader({ ...DEFAULTS, ...options });
      for (const line of lines) reader.read(line);
      return [reader.refusal, ...reader.notes].join();
    };
    for (const options of [{ keyField: 'key' }, { fields: { time: 'when' } }]) {
      const option = 'keyField' in options ? '--key-field' : '--time-field';
      expect(doubtsOf([text], options)).to.match(
        new RegExp(`^${option}: the fields of this format have no names`),
      );
      expect(doubtsOf([text, named], options)).to.match(
        new RegExp(`^,1 of 2 requests .*so ${option} did not apply`),
      );
      expect(doubtsOf([named], options)).to.equal('');
    }
    expect(doubtsOf([text], {})).to.equal('');
  });

  it('requests that have not ended count, without a status', () => {
    const begun = linesOf('fastify').filter((line) => line.includes('incoming'));
    const entries = requestsOf(begun);
    expect(entries).to.have.length(6);
    expect(entries[0]).to.include({ key: '127.0.0.1', path: '/items', status: undefined });
  });

  it('the ids of the last 10,000 whole requests are remembered', () => {
    const reader = new LineReader(DEFAULTS);
    const read = (id: number, more: object) =>
      reader.read(JSON.stringify({ time: 1e12 + id, reqId: id, ip: '10.0.0.1', ...more }));
    for (let id = 0; id < 10_000; id++)
      expect(read(id, { responseTime: 1 })).to.have.property('time', 1e12 + id);
    for (const id of [0, 5000, 9999]) expect(read(id, { msg: 'late message' })).to.equal('joined');
    expect(reader.rest()).to.deep.equal([]);
  });

  it('lines of many kinds, in any order', () => {
    const reader = new LineReader(DEFAULTS);
    for (let i = 0; i < 300; i++) {
      const client = i % 2 === 0 ? { ip: '10.0.0.1' } : { req: { ip: '10.0.0.1' } };
      const line = JSON.stringify({ [`field${i % 100}`]: i, ...client, 'url.path': `/${i}`, ts: 1e12 + i });
      expect(reader.read(line)).to.include({ key: '10.0.0.1', path: `/${i}`, time: 1e12 + i });
    }
  });

  it('the parts of a request that are kept are bounded', () => {
    const line = linesOf('fastify')[1]!;
    const reader = new LineReader(DEFAULTS);
    let requests = 0;
    for (let i = 0; i < 10_010; i++)
      if (isEntry(reader.read(line.replace('req-1', `req-x${i}`)))) requests += 1;
    expect([requests, reader.rest().length]).to.deep.equal([10, 10_000]);
  });
});

describe('logs of proxies and platforms', () => {
  // By the documentation of each program, as `# program (page)`, the line, and `= key path status time`.
  const documented = linesOf('documented').join('\n').split(/^# /m).slice(1);
  for (const [name = '', line = '', expected] of documented.map((each) => each.split('\n'))) {
    it(name, () => {
      const [entry, ...more] = requestsOf([line]);
      expect(more).to.deep.equal([]);
      const { key, path, status, time } = entry!;
      expect(`= ${key as string} ${path} ${status} ${new Date(time).toISOString()}`).to.equal(expected);
    });
  }

  const cases: Record<
    string,
    { line: string; key: string; path: string; status: number; time: string; method?: string }
  > = {
    // Dokploy's test of its parser (github.com/Dokploy/dokploy): `time` is the end, in whole seconds.
    Traefik: {
      line: '{"ClientAddr":"172.19.0.1:56732","ClientHost":"172.19.0.1","ClientPort":"56732","ClientUsername":"-","DownstreamStatus":304,"Duration":14729375,"RequestAddr":"s222-umami-c381af.traefik.me","RequestCount":122,"RequestMethod":"GET","RequestPath":"/dashboard?_rsc=1rugv","RequestPort":"-","ServiceAddr":"10.0.1.15:3000","ServiceURL":{"Scheme":"http","Host":"10.0.1.15:3000"},"StartLocal":"2024-08-25T04:34:37.306691884Z","StartUTC":"2024-08-25T04:34:37.306691884Z","entryPointName":"web","level":"info","msg":"","time":"2024-08-25T04:34:37Z"}',
      key: '172.19.0.1',
      path: '/dashboard',
      status: 304,
      time: '2024-08-25T04:34:37.306Z',
    },
    // IBM Cloud's page on Logpull.
    Cloudflare: {
      line: '{"ClientIP":"2620:1f7:8c5::1f:949e:c04d","ClientRequestHost":"test.logpull.load.com","ClientRequestMethod":"GET","ClientRequestURI":"/assets/bootstrap-collapse.js?v=1","EdgeEndTimestamp":1545067628046000000,"EdgeResponseBytes":2205,"EdgeResponseStatus":200,"EdgeStartTimestamp":1545067628044000000,"RayID":"48ab19434891c7a7"}',
      key: '2620:1f7:8c5::/56',
      path: '/assets/bootstrap-collapse.js',
      status: 200,
      time: '2018-12-17T17:27:08.044Z',
    },
    // The format of AWS CDK's AccessLogFormat.jsonWithStandardFields.
    'API Gateway, REST': {
      line: '{"requestId":"c6af9ac6-7b61-11e6-9a41-93e8deadbeef","ip":"203.0.113.12","user":"-","caller":"-","requestTime":"09/Apr/2026:12:34:56 +0000","httpMethod":"POST","resourcePath":"/pets/{id}","status":"200","protocol":"HTTP/1.1","responseLength":"12"}',
      key: '203.0.113.12',
      path: '/pets/{id}',
      status: 200,
      time: '2026-04-09T12:34:56.000Z',
      method: 'POST',
    },
    // The format of the AWS developer guide for HTTP APIs, which has a route instead of a path.
    'API Gateway, HTTP': {
      line: '{"requestId":"Mg_LPh9yIAMEPDg=","ip":"203.0.113.12","requestTime":"09/Apr/2026:12:34:56 +0000","httpMethod":"GET","routeKey":"GET /pets","status":"429","protocol":"HTTP/1.1","responseLength":"12"}',
      key: '203.0.113.12',
      path: '/pets',
      status: 429,
      time: '2026-04-09T12:34:56.000Z',
    },
    // The default format of the Terraform provider for Fastly.
    Fastly: {
      line: '{"timestamp":"2026-10-05T13:55:36+0000","client_ip":"203.0.113.12","geo_country":"germany","host":"www.example.com","url":"/a?b","request_method":"GET","request_protocol":"HTTP/2","response_state":"HIT-CLUSTER","response_status":404,"response_reason":"Not Found"}',
      key: '203.0.113.12',
      path: '/a',
      status: 404,
      time: '2026-10-05T13:55:36.000Z',
    },
    // Envoy Gateway's blog on its standalone mode.
    'Envoy Gateway': {
      line: '{":authority":"backend:3000","bytes_received":0,"bytes_sent":466,"connection_termination_details":null,"downstream_local_address":"10.244.0.14:3000","downstream_remote_address":"10.244.0.12:34805","duration":1,"method":"GET","protocol":"HTTP/1.1","response_code":200,"response_code_details":"via_upstream","start_time":"2025-04-09T11:44:45.639Z","upstream_host":"10.244.0.13:3000","user-agent":"curl/7.88.1","x-envoy-origin-path":"/","x-forwarded-for":"203.0.113.7,10.244.0.12","x-request-id":"ab1e4da7-5f1d-45ea-bb4a-fa1ccd03b82b"}',
      key: '203.0.113.7',
      path: '/',
      status: 200,
      time: '2025-04-09T11:44:45.639Z',
    },
    // LogstashAccessEncoder of logstash-logback-encoder: the fields of its README.
    logback: {
      line: '{"@timestamp":"2026-10-05T15:55:36.123+02:00","@version":"1","message":"203.0.113.12 - - [2026-10-05T15:55:36.123+02:00] \\"GET /a?b HTTP/1.1\\" 200 12","method":"GET","protocol":"HTTP/1.1","status_code":200,"requested_url":"GET /a?b HTTP/1.1","requested_uri":"/a","remote_host":"203.0.113.12","content_length":12,"elapsed_time":7}',
      key: '203.0.113.12',
      path: '/a',
      status: 200,
      time: '2026-10-05T13:55:36.123Z',
    },
    // An example of eclipse-basyx, whose logger writes ECS with dots in its names; the client is added.
    'ECS with dots in names': {
      line: '{"time":"2026-07-25T10:00:01Z","level":"INFO","msg":"HTTP request completed","service.name":"aas","request.id":"request-42","http.request.method":"get","url.path":"/shells","http.response.status_code":200,"duration_ms":3.725,"source.ip":"203.0.113.12"}',
      key: '203.0.113.12',
      path: '/shells',
      status: 200,
      time: '2026-07-25T10:00:01.000Z',
      method: 'GET',
    },
    // Heroku's router.
    Heroku: {
      line: '2019-02-06T05:22:52.875773+00:00 heroku[router]: at=info method=GET path="/a b" host=frozen-escarpment-16189.herokuapp.com request_id=a2e2ec72-88bb-4ec8-b972-9bc6613e98ef fwd="24.18.194.216" dyno=web.1 connect=1ms service=45ms status=302 bytes=255 protocol=https',
      key: '24.18.194.216',
      path: '/a b',
      status: 302,
      time: '2019-02-06T05:22:52.875Z',
    },
    "Heroku's drain": {
      line: '277 <158>1 2019-02-06T05:22:52.875773+00:00 host heroku router - at=info method=GET path="/" host=x.herokuapp.com request_id=a2e2ec72 fwd="24.18.194.216" dyno=web.1 connect=1ms service=45ms status=302 bytes=255 protocol=https',
      key: '24.18.194.216',
      path: '/',
      status: 302,
      time: '2019-02-06T05:22:52.875Z',
    },
  };
  for (const [name, { line, key, path, status, time, method = 'GET' }] of Object.entries(cases)) {
    it(name, () => {
      expect(requestsOf([line])).to.deep.equal([{ key, path, status, time: Date.parse(time) }]);
      expect(requestsOf([line], { keys: loggedKeys(['method']) })[0]).to.have.property('key', method);
    });
  }

  // From a page of Render's that a user copied into the repository of an application; the address is another.
  const render =
    '[GET]200app.example.com/orders/list?x=1clientIP="192.0.2.7" requestID="bb0c4917-1e0e-4d34" responseTimeMS=2694 responseBytes=333888 userAgent="Mozilla/5.0"';
  const platforms: Record<string, string> = {
    'Render, behind the header of its log stream (RFC 5424)': `<134>1 2026-11-27T10:00:00Z host app srv-1 - - ${render}`,
    // `render logs -o json`, by the page of ControlTheory's Gonzo: a message, a time and labels.
    'Render, as JSON of its command line': JSON.stringify({
      message: `     ${render}`,
      timestamp: '2026-11-27T10:00:00Z',
      labels: [{ name: 'type', value: 'request' }],
    }),
    // `fly logs` in the guide of Livebook; a newer version writes no space after the level.
    'Fly.io, a line of `fly logs`':
      '2026-11-27T10:00:00.415426797Z app[44040812] sjc [info] {"remote_ip":"192.0.2.7","path":"/orders/list","status":200}',
    'Fly.io, a newer line':
      '2026-11-27T10:00:00Z app[9080123f] sjc [info]192.0.2.7 - - [27/Nov/2026:10:00:00 +0000] "GET /orders/list HTTP/1.1" 200 5',
    // The fields of fly-log-shipper, as in a file of S3 that Simon Willison's notes quote.
    'Fly.io, a record of fly-log-shipper': JSON.stringify({
      ...{
        event: { provider: 'app' },
        fly: { app: { instance: '0e286551c30586', name: 'x' }, region: 'sjc' },
      },
      ...{ host: '0ad1', log: { level: 'info' } },
      message: '{"remote_ip":"192.0.2.7","path":"/orders/list","status":200}',
      timestamp: '2026-11-27T10:00:00.252022967Z',
    }),
  };
  for (const [name, line] of Object.entries(platforms)) {
    it(name, () => {
      const entries = requestsOf([line]);
      expect(shown(entries)).to.deep.equal(['"192.0.2.7" /orders/list 200']);
      expect(entries[0]!.time - Date.UTC(2026, 10, 27, 10)).to.be.within(0, 999);
    });
  }

  it('batches: arrays in one line, and an array with a record in each line', async () => {
    const logs = new LogDirectory();
    const records = [1, 2, 3, 4].map((i) =>
      JSON.stringify({
        timestamp: 1_573_817_250_283 + i,
        proxy: { clientIp: `192.0.2.${i}`, statusCode: 200 },
      }),
    );
    try {
      logs.write('batches.log', [`[${records.slice(0, 3).join()}]`, `[${records[3]}]`, '[{"cut']);
      logs.write('array.json', ['[', ...records.slice(0, 3).map((each) => `${each},`), records[3]!, ']']);
      for (const [file, malformed] of [
        ['batches.log', 1],
        ['array.json', 0],
      ] as const) {
        const { stdout } = await headgate(['replay', '--json', file, '--policy', '5/1s'], { cwd: logs.path });
        const [log] = (JSON.parse(stdout) as { logs: { requests: number; malformed: number }[] }).logs;
        expect(log).to.include({ requests: 4, malformed });
      }
    } finally {
      logs.remove();
    }
  });

  it('lines of Heroku programs do not count beside those of its router', () => {
    const router = cases.Heroku!.line;
    const app =
      '2019-02-06T05:22:52.875773+00:00 app[web.1]: 10.1.8.232 - - [06/Feb/2019:05:22:52 +0000] "GET /a HTTP/1.1" 200 1';
    expect(requestsOf([app, app])).to.have.length(2);
    expect(requestsOf([router, app, router, app])).to.have.length(2);
  });
});

describe('prefixes of containers and of syslog', () => {
  const common = '203.0.113.12 - - [05/Oct/2026:13:55:36 +0000] "GET /a HTTP/1.1" 200 1';
  const json = '{"time":"2026-10-05T13:55:36Z","ip":"203.0.113.12","path":"/a","status":200}';
  const prefixes: Record<string, string> = {
    CRI: '2026-10-05T13:55:37.481937214Z stdout F ',
    'CRI with another zone': '2026-10-05T15:55:37.931941344+02:00 stdout F ',
    'Docker Compose': 'web-1  | ',
    'Docker Compose with times': 'web_1  | 2026-10-05T13:55:37.481937214Z ',
    'kubectl with times': '2026-10-05T13:55:37.481937214Z ',
    'kubectl with names': '[pod/web-6d4cf56db6-abcde/nginx] ',
    stern: 'web-6d4cf56db6-abcde nginx ',
    // The example of RFC 5424, section 6.5, with its structured data.
    'RFC 5424':
      '<165>1 2026-10-05T13:55:37.003Z mymachine.example.com nginx 8710 ID47 [exampleSDID@32473 iut="3" eventID="1011"] ',
    'RFC 5424 without data': '<165>1 2026-10-05T13:55:37.003Z 192.0.2.1 nginx 8710 - - ',
    'RFC 3164': '<190>Oct  5 13:55:36 web1 nginx: ',
    rsyslog: '2026-10-05T13:55:37.123456+00:00 web1 nginx[123]: ',
    'a syslog whose host is an address': 'Oct 15 13:55:36 10.0.0.5 nginx[123]: ',
    'the name of a pod': 'web-6d4cf56db6-abcde ',
    'a process id': '4711 ',
    'a scheme': 'https ',
    'a virtual host': 'www.example.org:443 ',
    'a time of syslog alone': 'Oct  5 13:55:36 ',
  };
  for (const [name, prefix] of Object.entries(prefixes)) {
    it(name, () => {
      const expected = {
        key: '203.0.113.12',
        path: '/a',
        status: 200,
        time: Date.UTC(2026, 9, 5, 13, 55, 36),
      };
      expect(requestsOf([prefix + common])).to.deep.equal([expected]);
      expect(requestsOf([prefix + json])).to.deep.equal([expected]);
      const named = common.replace('203.0.113.12', 'host.example.org');
      expect(requestsOf([prefix + named])[0]).to.have.property('key', 'host.example.org');
    });
  }

  it("Docker's json-file, also of a line that it cut", () => {
    const wrap = (log: string) => JSON.stringify({ log, stream: 'stdout', time: '2026-10-05T13:55:37.1Z' });
    expect(shown(requestsOf([wrap(`${common}\n`), wrap(`${json}\r\n`)]))).to.deep.equal([
      '"203.0.113.12" /a 200',
      '"203.0.113.12" /a 200',
    ]);
    expect(shown(requestsOf([wrap(json.slice(0, 40)), wrap(`${json.slice(40)}\n`)]))).to.deep.equal([
      '"203.0.113.12" /a 200',
    ]);
    const timeless = wrap(`${JSON.stringify({ ip: '203.0.113.12' })}\n`);
    expect(requestsOf([timeless])[0]).to.have.property('time', Date.UTC(2026, 9, 5, 13, 55, 37, 100));
  });

  it('CRI, of a line that it cut', () => {
    const [a, b] = ['2026-10-05T13:55:37.4Z stdout P ', '2026-10-05T13:55:37.4Z stdout F '];
    expect(shown(requestsOf([a + common.slice(0, 30), b + common.slice(30), b + common]))).to.deep.equal([
      '"203.0.113.12" /a 200',
      '"203.0.113.12" /a 200',
    ]);
  });

  it('no client is a word of the line', () => {
    const reader = new LineReader(DEFAULTS);
    const lines = ['pod-1 x frank smith', 'https unix: - -', 'a b c d'];
    for (const words of lines)
      expect(reader.read(`${words} [05/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1`)).to.have.property(
        'problem',
      );
    expect(reader.read('pod-1 - - - [05/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1')).to.equal(
      'skipped',
    );
  });
});

describe('a log that was not read as it was meant', () => {
  let logs: LogDirectory;
  beforeEach(() => (logs = new LogDirectory()));
  afterEach(() => logs.remove());

  const START = Date.UTC(2026, 9, 5, 13, 55, 36);
  const lines = (of: (i: number) => object) => Array.from({ length: 40 }, (_, i) => JSON.stringify(of(i)));
  const iso = (i: number) => new Date(START + 1000 * i).toISOString();
  const ip = (i: number) => `203.0.113.${i % 4}`;
  async function run(...args: string[]) {
    const [command = '', ...rest] = args;
    const policy = command === 'replay' ? ['--policy', '5/1s'] : [];
    return headgate([command, 'a.log', ...policy, ...rest], { cwd: logs.path });
  }

  it('a date and a time apart are one time', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ date: '2026-10-05', time: iso(i).slice(11, 19), ip: ip(i) })),
    );
    const { stdout } = await run('suggest', '--window', '1s,1m');
    expect(stdout)
      .to.contain('2026-10-05 13:55:36 to 2026-10-05 13:56:15')
      .and.to.match(/^100 % +1\/1s/m);
    logs.write(
      'a.log',
      lines((i) => ({ day: '2026/10/05', clock: iso(i).slice(11, 19), ip: ip(i) })),
    );
    const failed = await run('suggest');
    expect(failed.code).to.equal(1);
    expect(failed.stderr).to.contain('--time-field');
    expect((await run('suggest', '--time-field', 'day clock')).stdout).to.contain('2026-10-05 13:55:36 to');
  });

  it('refuses a log whose times are all at midnight', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ date: '2026-10-05T00:00:00Z', at: iso(i), ip: ip(i) })),
    );
    for (const command of ['suggest', 'replay']) {
      const { code, stdout, stderr } = await run(command);
      expect(code).to.equal(1);
      expect(stdout).to.equal('');
      expect(stderr).to.contain('a.log: all times are at midnight').and.contain('--time-field');
      expect((await run(command, '--time-field', 'at')).code).to.equal(0);
    }
  });

  it('notes that all times are equal, or whole minutes', async () => {
    for (const command of ['suggest', 'replay']) {
      logs.write(
        'a.log',
        lines((i) => ({ time: iso(0), ip: ip(i) })),
      );
      expect((await run(command)).stdout)
        .to.contain('a.log: all requests have the same time')
        .and.contain('--time-field');
      logs.write(
        'a.log',
        lines((i) => ({ time: `2026-10-05 13:${10 + i}`, ip: ip(i) })),
      );
      expect((await run(command)).stdout).to.contain('a.log: all times are whole minutes');
    }
  });

  it('refuses a field of the client without any address; --key-field takes it as it is', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ time: iso(i), client: i % 2 ? 'ios-app' : 'android', peer: ip(i) })),
    );
    const { code, stderr } = await run('replay');
    expect(code).to.equal(1);
    expect(stderr)
      .to.contain('a.log: no client is an address; the first is "android"')
      .and.contain('--key-field');
    expect((await run('replay', '--key-field', 'client')).stdout).to.contain('of 2 clients');
    expect((await run('replay', '--key-field', 'peer')).stdout).to.contain('of 4 clients');
  });

  it('notes some clients that are not addresses', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ time: iso(i), ip: i < 4 ? 'health-check' : ip(i) })),
    );
    expect((await run('replay')).stdout).to.contain(
      'a.log: 4 of 40 requests (10 %) have a client that is not an address, such as "health-check"',
    );
  });

  it('refuses --match by a part that no request has; the option for its field mends it', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ time: iso(i), ip: ip(i), code: i % 4 === 0 ? 429 : 200, verb: 'get', where: '/a?b' })),
    );
    const cases = [
      ['!429', 'status', 'code', '30 requests'],
      ['GET', 'method', 'verb', '40 requests'],
      ['/a', 'path', 'where', '40 requests'],
    ];
    for (const [match, part, field, found] of cases) {
      const { code, stderr } = await run('replay', '--match', match!);
      expect(code).to.equal(1);
      expect(stderr).to.contain(`no request has a ${part}`).and.contain(`--${part}-field`);
      const { stdout } = await run('replay', '--match', match!, `--${part}-field`, field!);
      expect(stdout).to.contain(found);
    }
  });

  it('notes requests without a status, if --match selects by it', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ time: iso(i), ip: ip(i), ...(i > 0 && { status: 200 }) })),
    );
    expect((await run('replay', '--match', '!429')).stdout).to.contain(
      'a.log: 1 of 40 requests (2.5 %) have no status',
    );
  });

  it('notes requests that two proxies have logged', async () => {
    logs.write(
      'a.log',
      lines((i) => ({ time: iso(i >> 1), ip: ip(i), status: 200, request_id: `r${i >> 1}` })),
    );
    const { stdout } = await run('replay');
    expect(stdout).to.contain('a.log: 20 of 40 requests (50 %) have the same id');
    const { stdout: text } = await headgate(['replay', '--json', 'a.log', '--policy', '5/1s'], {
      cwd: logs.path,
    });
    expect((JSON.parse(text) as { logs: { notes: string[] }[] }).logs[0]!.notes).to.have.length(1);
  });

  it('reports nothing of a log that was read well', async () => {
    logs.write('a.log', linesOf('fastify'));
    const { stdout } = await run('replay');
    expect(stdout)
      .to.contain('6 requests of 1 client')
      .and.contain('17 lines, 6 requests, 10 joined')
      .and.not.contain('a.log: a');
  });

  const contents: [name: string, bytes: Buffer, kind: string, command: string][] = [
    ['a.zst', Buffer.from('28b52ffd240b', 'hex'), 'compressed by zstd', 'zstdcat a.zst |'],
    ['a.xz', Buffer.from('fd377a585a000004', 'hex'), 'compressed by xz', 'xzcat a.xz |'],
    ['a.bz2', Buffer.from('BZh91AY&SY'), 'compressed by bzip2', 'bzcat a.bz2 |'],
    ['a.zip', Buffer.from('PK\u0003\u0004'), 'a ZIP archive', 'unzip -p a.zip |'],
    ['a.txt', Buffer.from('\ufeff{"time":1}', 'utf16le'), 'in UTF-16', 'iconv -f UTF-16 -t UTF-8 a.txt |'],
    ['b.txt', Buffer.from('{"time":1}', 'utf16le'), 'in UTF-16', 'iconv -f UTF-16 -t UTF-8 b.txt |'],
  ];
  for (const [name, bytes, kind, command] of contents) {
    it(`names the fix for a file that is ${kind}: ${name}`, async () => {
      logs.write(name, bytes);
      const { code, stderr } = await headgate(['replay', name, '--policy', '5/1s'], { cwd: logs.path });
      expect(code).to.equal(2);
      expect(stderr).to.contain(`${name} is ${kind}`).and.contain(command);
    });
  }
});
