// The parts of an answer that each check of an adapter depends on: each part of each answer is spoilt in turn, and the check must fail if it depends on the part.
import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { adapterChecks, type AdapterUnderTest } from 'headgate-testing';
import { adapters, type TestRequest, type TestResponse } from '../../../../test/http/apps.js';

type Adapter = AdapterUnderTest<TestRequest, TestResponse>;

const { serve } = adapters['Express 5']!;

/** Spoils a part of an answer, just before it is sent. */
const PARTS: Readonly<Record<string, (response: ServerResponse) => { status?: number; text?: string }>> = {
  s: () => ({ status: 418 }),
  f(response) {
    const fields = response.getHeaderNames().filter((name) => /ratelimit|retry-after/.test(name));
    for (const name of fields) {
      const value = String(response.getHeader(name));
      response.setHeader(
        name,
        value.replace(/\d+/g, (digits) => String(Number(digits) + 1)),
      );
    }
    return {};
  },
  t: () => ({ text: '{}' }),
};

function spoil(response: ServerResponse, part: string): void {
  const writeHead: (status: number) => ServerResponse = response.writeHead.bind(response);
  const end: (text: string) => ServerResponse = response.end.bind(response);
  response.writeHead = (status: number) => {
    const spoilt = PARTS[part]!(response);
    if (spoilt.text !== undefined) response.removeHeader('Content-Length');
    return writeHead(spoilt.status ?? status);
  };
  if (part === 't') response.end = () => end('{}');
}

/** Plays a check once for each part of each of its answers. Returns the parts that make the check fail, answer by answer. */
async function sensitiveParts(name: string): Promise<string> {
  /** Resolves to the number of answers, or undefined if the check fails. */
  const play = async (at: number, part: string) => {
    let count = 0;
    const start: Adapter['start'] = ({ limiters, answer }) => {
      const before = (response: ServerResponse) => {
        if (count++ === at) spoil(response, part);
      };
      return serve({ limiters, answer, before });
    };
    const check = adapterChecks({ start, patience: 1_000 }).find((each) => each.name === name)!;
    return check.run().then(
      () => count,
      () => undefined,
    );
  };
  const parts: string[] = [];
  const answers = (await play(-1, '')) ?? 0;
  for (let at = 0; at < answers; at++) {
    const plays = Object.keys(PARTS).map(async (part) => ((await play(at, part)) === undefined ? part : ''));
    parts.push((await Promise.all(plays)).join('') || '-');
  }
  return parts.join(' ');
}

/** The parts that each check depends on, for each of its answers: the status (s), the fields of rate limits (f) and the text (t). */
const CHECKS: Readonly<Record<string, string>> = {
  'requests in one packet: exactly the limit goes on, and each gets its own remaining':
    'sf sf sf sf sf s s s s s s s',
  'requests on several connections: exactly the limit goes on': 'sf sf sf sf sf s s s s s s s',
  'after a denial, requests go on at the second of Retry-After, and not before': 's s f s s',
  'header fields: by default, draft-6 and draft-11': 'f',
  'header fields: draft-6': 'f',
  'header fields: draft-7': 'f',
  'header fields: none': '-',
  'header fields: legacy, with the date of the reset': 'f',
  'a denial has Retry-After, problem details, and must not be cached': '- sft',
  'a cost that can never be admitted: no Retry-After, but the reason': 'sft',
  'a cost that one policy can never admit, and another denies for a time: no Retry-After':
    '- - - - - - - - - t f',
  'HEAD is answered like GET, without a body, and shares its quota': 's s - s',
  'all methods are limited, and share the quota': 'f f f f f f s s s s s s',
  'a ban: 429 with its problem type, as long as it lasts': 's s sft sft s',
  'a store that fails: onStoreError decides between 503, 500 and going on': 's s ft s s s s',
  'the key is one for IPv4 and the same mapped into IPv6': 's s',
  'the key is one for mapped, in hexadecimal': 's s',
  'the key is one for IPv6 of one /56': 's s',
  'the key is one for IPv6 in other forms': 's s',
  'the key is one for IPv6 with a zone': 's s',
  'the key differs between IPv4 addresses': 's s',
  'the key differs between mapped addresses': 's s',
  'the key differs between IPv6 networks': 's s',
  'the key is the network of the length ipv6Subnet': 's s s s',
  'a client address that is not an address fails the request': 'st st st st st',
  'keyGenerator (sync): undefined does not limit, another value than a string fails': 's s s s s s - st',
  'cost (sync): 0 looks, and an invalid cost fails': 'f s f st f s',
  'cost (sync): by policy name, and an unknown name fails': 'f st s st',
  'skip (sync)': 's s s s s',
  'policies (sync): a change of the tier keeps the charges': 's s s s s s st s s',
  'tiers by a function of the request (sync)': 's s s s s s st',
  'a limiter with tiers, and policies for requests without one (sync)': 's s s s s',
  'allowList and denyList by keys and by function (sync)': 's s s s s',
  'keyGenerator (async): undefined does not limit, another value than a string fails': 's s s s s s - st',
  'cost (async): 0 looks, and an invalid cost fails': 'f s f st f s',
  'cost (async): by policy name, and an unknown name fails': 'f st s st',
  'skip (async)': 's s s s s',
  'policies (async): a change of the tier keeps the charges': 's s s s s s st s s',
  'tiers by a function of the request (async)': 's s s s s s st',
  'a limiter with tiers, and policies for requests without one (async)': 's s s s s',
  'allowList and denyList by keys and by function (async)': 's s s s s',
  'skip that throws, fails the request': 'st',
  'keyGenerator that throws, fails the request': 'st',
  'cost that throws, fails the request': 'st',
  'policies that throws, fails the request': 'st',
  'allowList that throws, fails the request': 'st',
  'denyList that throws, fails the request': 'st',
  'skip that rejects, fails the request': 'st',
  'keyGenerator that rejects, fails the request': 'st',
  'cost that rejects, fails the request': 'st',
  'policies that rejects, fails the request': 'st',
  'allowList that rejects, fails the request': 'st',
  'denyList that rejects, fails the request': 'st',
  'denyList answers 403, before allowList, and charges nothing': 'st st st s s s s s',
  'lists also decide if the policies depend on the request': 's s s s s',
  statusCode: '- st',
  'handler answers instead, with status and header fields set': '- sft',
  'a handler that fails makes the request fail': '- st',
  'onDecision receives every decision and its request': '- -',
  'a shadow decides and reports, and shows the client nothing': 's s -',
  'a shadow policy is not enforced, and not shown to the client': 'f s s',
  'limiter: a limiter of createLimiter can be shared by routes and code': 's s s s',
  'the decision is on the request': 't',
  'enabled: a request is limited if it is true at that moment': 's s s s s',
  'keys (sync): policies count the key of their dimension, if the request has one': 's s s s s s',
  'keys (async): policies count the key of their dimension, if the request has one': 's s s s s s',
  'partitionKey: the header fields distinguish clients without naming them': 'f f -',
  'jitter: Retry-After is later by up to that much, never earlier; no other field is': 's sf sf sf sf s',
  'they append to lists, and single fields keep the tightest quota': 'f',
  'single fields keep the tightest quota, whichever limiter comes first': 'f',
  'if one denies, single fields are about it, even if another has less left': '- f',
  'if two dialects share a field, the newer dialect sets it, whichever comes first': 'f f',
  'policies of the same name are distinguished by numbers, also in a denial': 'f ft',
  'if one denies by slots, the older fields stay about the quota': '- f',
  'they charge nothing for a request that one of them denies, whatever their order':
    's s s s s s s t s s s s s s s s t s',
  'they give slots back if one of them denies the request': 's s s',
  'all of them learn that the response has ended': 's -',
  'the decision of the latest one is on the request': 't',
  'skipFailedRequests gives back for 400, and not for 399': 's s s s s s',
  'skipFailedRequests gives back for 500, and not for 200': 's s s s s s',
  'skipSuccessfulRequests gives back for 399, and not for 400': 's s s s s s',
  'skipSuccessfulRequests gives back for 200, and not for 500': 's s s s s s',
  'requestWasSuccessful (sync)': 's s s',
  'requestWasSuccessful (async)': 's s s',
  'refundAborted gives the cost back if the response is cut off': '-',
  'the route settles the real cost of a request': 'f f s',
  'the route settles the real cost of a request for one policy': 's s s s',
  'a give-back that fails does not fail the request': 's s',
  'a slot is held until the response is finished': 'f sf -',
  'a slot is held until the connection is closed': '- s -',
  'a slot is given back exactly once': 's s s s s',
  'a slot is renewed while the response takes longer than the lease': '- s -',
  'a leaky bucket holds requests until their turn, and denies requests that would wait too long':
    's s s s s s s s',
  'the turn of a client that leaves is given back, and the route does not run': 's -',
  'at most maxWaiting requests are held; others get 503': 's - sft',
  'with `wait`, requests of a key are served in order of arrival, and keys do not wait for each other':
    's s s s',
  'with `wait`, a client that leaves loses its place, and the route does not run': 's - s',
  'with `wait`, a request that finds no room gets 503 with Retry-After': '- - - sft',
  'with `wait`, a request that is not admitted in time gets 429, at once if that is certain': '- sf s s',
};

describe('the checks of an adapter', function () {
  this.timeout(60_000);
  this.retries(2);

  it('are complete in the list above', () => {
    const names = adapterChecks({ start: serve }).map(({ name }) => name);
    expect(names).to.have.members(Object.keys(CHECKS));
  });

  for (const [name, parts] of Object.entries(CHECKS))
    it(`${name}: ${parts}`, async () => {
      expect(await sensitiveParts(name)).to.equal(parts);
    });
});
