import { luaFiles } from './src/stores/redis/lua-files.js';
import { compose } from './src/stores/redis/scripts.js';
import { Redis } from 'ioredis';
import { spawn } from 'node:child_process';
const server = spawn('redis-server', ['--port', '7797', '--save', '', '--appendonly', 'no'], { stdio: 'ignore' });
await new Promise((r) => setTimeout(r, 500));
const redis = new Redis(7797);
const share = luaFiles['shares']!['share']!;
const head = `local deadline, step = 1, 1764262222000000 local now = 1764262222000
local function headgate_life(life) return string.format('%d', life) end\n`;
const p = '{100000, 6000, 11, 1}';
const timed = (setup: string, body: string, n = 20000) => `${head}${setup}
local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
local a = us() for i = 1, ${n} do end local e = us() - a
local start = us() for i = 1, ${n} do ${body} end return tostring((us() - start - e) / ${n})`;
const run = async (name: string, setup: string, body: string) => console.log(name.padEnd(30), await redis.eval(timed(setup, body), 0));
const save = share.replace(/redis\.call\('SET', (\w+), (.*?), 'PX', text\)/g, 'local _ = $2').replace(/redis.call\('PTTL', pool_key\)/, '1');
const states = `local L = 100 local pool = struct.pack('>I6I7I6I6I6I8I8' .. string.rep('I2', 22), now - 1000, 1764262220000000, 0,0,0, 500, 500, 500, 500, unpack((function() local t = {} for i = 1, 20 do t[i] = 0 end return t end)()))
local tenant = struct.pack('>I6I7I6I2I8I8I8I8' .. string.rep('I2', 44), now - 1000, 1764262220000000, 0,0, 10,10,10,0, 10,10,10,0, unpack((function() local t = {} for i = 1, 40 do t[i] = 0 end return t end)()))
local p = ${p} local from = now - 1000\n`;
await run('closures', '', `local function f() ${share} return 1 end f()`.replace(/^/, ''));
await run('call only', '', `local function f() return 1 end f()`);
await run('load', save + states, `shares_load(p, 100000, 0, pool, tenant, from)`);
await run('load no pool', save + states, `shares_load(p, 100000, 0, false, false, from)`);
await run('load+admits+note', save + states, `shares_load(p, 100000, 0, pool, tenant, from) shares_admits(1, 10000) shares_note(1, true)`);
await run('+save', save + states, `shares_load(p, 100000, 0, pool, tenant, from) shares_admits(1, 10000) shares_note(1, true) shares_save('a', 'b')`);
await run('+remaining', save + states, `shares_load(p, 100000, 0, pool, tenant, from) shares_admits(1, 10000) shares_note(1, true) shares_save('a', 'b') shares_remaining(1000)`);
const whole = compose('evaluate', { kernels: ['shares', 'sliding-window'], ban: false, overrides: false });
await run('unpack pool', states, `struct.unpack('>I6I7I6I6I6I8I8I2I2', pool)`);
await run('unpack tenant', states, `struct.unpack('>I6I7I6I2I8I8I8I8I2I2I2I2', tenant)`);
await run('unpack tenant d', states, `struct.unpack('>dddddddddddd', tenant)`);
await run('unpack tenant I4', states, `struct.unpack('>I4I4I4I4I4I4I4I4I4I4I4I4', tenant)`);
await run('string.byte 50', states, `string.byte(tenant, 1, 50)`);
await run('sub tenant', states, `string.sub(tenant, 60)`);
await run('life', states, `headgate_life(36000)`);
await run('get', states + `redis.call('SET', 'x', tenant)`, `redis.call('GET', 'x')`);
await run('pcall get', states + `redis.call('SET', 'x', tenant)`, `redis.pcall('GET', 'x')`);
await run('set px', states, `redis.call('SET', 'x', tenant, 'PX', '66000')`);
await run('setrange', states+ `redis.call('SET', 'x', tenant)`, `redis.call('SETRANGE', 'x', '0', 'abcdefghijkjhjkhkjhkjhkjhjkhkjhkjhkjhkj')`);
await run('pttl', states, `redis.call('PTTL', 'x')`);
console.log(whole.length);
redis.disconnect(); server.kill();
