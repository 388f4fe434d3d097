// The floor is Redis 6.0: checked in the scripts' text, by a user without newer commands, and in the texts of its errors.
import { expect } from 'chai';
import { Redis } from 'ioredis';
import luaparse from 'luaparse';
import { redisStore } from 'headgate/redis';
import { identityChecks } from 'headgate-testing';
import { algorithms, type Kernel } from '../../src/algorithms/index.js';
import { assemble, scriptNames } from '../../src/stores/redis/scripts.js';
import { plainWords } from '../../src/stores/store-error.js';
import { describeChecks, runsOf } from '../support/kit.js';
import { COMMANDS, OPTIONS } from '../support/redis-6.0.js';
import { perServer, serverKinds, servers } from '../support/shared-servers.js';
import { freshPrefix } from '../support/stores.js';

/** The command calls of a script: the string literals among their arguments, or `undefined` for other arguments. */
function callsOf(source: string): (string | undefined)[][] {
  const calls: (string | undefined)[][] = [];
  luaparse.parse(source, {
    luaVersion: '5.1',
    // Without this, string literals have no value.
    encodingMode: 'pseudo-latin1',
    onCreateNode(node) {
      if (node.type !== 'CallExpression') return;
      const { base, arguments: args } = node;
      const isCall = base.type === 'MemberExpression' && /^p?call$/.test(base.identifier.name);
      const isTried = base.type === 'Identifier' && base.name === 'try';
      if (!isCall && !isTried) return;
      calls.push(args.map((arg) => (arg.type === 'StringLiteral' ? arg.value : undefined)));
    },
  });
  return calls;
}

describe('older servers', () => {
  it('have every command and option of all scripts', () => {
    const kernels = Object.keys(algorithms) as Kernel[];
    const used = new Set<string>();
    for (const name of scriptNames) {
      const { source } = assemble(name, kernels, name === 'evaluate' || name === 'set-ban' ? ['bans'] : []);
      for (const [command, ...args] of callsOf(source)) {
        // `check.lua` passes on its own arguments.
        if (command === undefined && name === 'check') continue;
        expect(command, name).to.be.a('string');
        expect(COMMANDS, name).to.include(command!.toLowerCase());
        used.add(command!);
        const options = args.filter((arg) => arg !== undefined && /^([A-Z]{2,}|[~*])$/.test(arg));
        for (const option of options)
          expect(OPTIONS[command!], `${name}: ${command} ${option}`).to.include(option);
      }
    }
    expect([...used]).to.include.members([
      'GET',
      'SET',
      'INCRBY',
      'SETRANGE',
      'XADD',
      'ZADD',
      'ZREVRANGE',
      'PTTL',
      'HSET',
    ]);
  });

  it('and newer ones name the place in a script where a command has failed, and the message omits it', () => {
    const script = 'ERR Error running script (call to f_db8d8f6383e1a67ce23db65efd679a334c123806): ';
    const oom = "OOM command not allowed when used memory > 'maxmemory'.";
    for (const [given, words] of [
      [`${script}@user_script:1: @user_script: 1: -${oom}\r\n`, oom],
      [`=[C]: -1: -${oom}\r\n`, oom],
      [`@user_script: 14: -${oom}`, oom],
      [`${script}@user_script:1: WRONGTYPE Operation against a key`, 'WRONGTYPE Operation against a key'],
      ['ERR user_script:76: NOPERM this user', 'NOPERM this user'],
      [oom, oom],
      ['ERR syntax error', 'ERR syntax error'],
      // From Redis 7.0, and from Valkey 9.1.
      [`${oom} script: 424272f4584672b5a533a89544f95acd8d5d2a85, on @user_script:153.`, oom],
      [`${oom} script: on @user_script:153.`, oom],
    ] as const)
      expect(plainWords(given)).to.equal(words);
  });
});

/** Users with all commands of Redis 6.0 and no newer command. */
const clients = perServer(
  (kind) => new Redis({ port: servers[kind].port, username: 'older', password: 'older', lazyConnect: true }),
);

describe('a user who may run no command newer than Redis 6.0', () => {
  before(async () => {
    for (const kind of serverKinds) {
      const admin = new Redis(servers[kind].port);
      await admin.call(
        'ACL',
        'SETUSER',
        'older',
        'on',
        '>older',
        '~*',
        '-@all',
        ...COMMANDS.map((each) => `+${each}`),
      );
      admin.disconnect();
    }
  });

  after(async () => {
    for (const kind of serverKinds) {
      clients[kind].disconnect();
      const admin = new Redis(servers[kind].port);
      await admin.call('ACL', 'DELUSER', 'older');
      admin.disconnect();
    }
  });

  for (const kind of serverKinds) {
    const options = {
      createStore: (clock: () => number) => redisStore(clients[kind], { clock, prefix: freshPrefix() }),
      ordered: true,
      runs: runsOf(kind, 0, 5),
    };
    describeChecks(
      `memory and ${kind}, by a user who may run no command newer than Redis 6.0`,
      identityChecks(options),
    );

    it(`can run everything that a store needs, and no newer command, on ${kind}`, async () => {
      expect(await clients[kind].call('SET', 'older', '1', 'PX', '1').catch(String)).to.equal('OK');
      expect(await clients[kind].pexpiretime('older').catch(String)).to.match(/NOPERM/);
      const findings = await redisStore(clients[kind], { prefix: freshPrefix() }).check();
      expect(findings.filter(({ level }) => level === 'error')).to.deep.equal([]);
    });
  }
});
