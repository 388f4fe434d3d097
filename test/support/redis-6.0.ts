// The commands of Redis 6.0, from its command table and its documentation.

/** All commands except replication, debugging and the commands that later servers removed. */
export const COMMANDS = `
  acl append asking auth bgrewriteaof bgsave bitcount bitfield bitop bitpos blpop brpop brpoplpush bzpopmax
  bzpopmin client cluster command config dbsize decr decrby del discard dump echo eval evalsha exec exists
  expire expireat flushall flushdb geoadd geodist geohash geopos georadius georadiusbymember get getbit getrange
  getset hdel hello hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hscan hset hsetnx hstrlen
  hvals incr incrby incrbyfloat info keys lastsave latency lindex linsert llen lolwut lpop lpush lpushx lrange
  lrem lset ltrim memory mget migrate module monitor move mset msetnx multi object persist pexpire pexpireat
  pfadd pfcount pfmerge ping psetex psubscribe pttl publish pubsub punsubscribe randomkey readonly readwrite
  rename renamenx replicaof restore role rpop rpoplpush rpush rpushx sadd save scan scard script sdiff
  sdiffstore select set setbit setex setnx setrange shutdown sinter sinterstore sismember slaveof slowlog
  smembers smove sort spop srandmember srem sscan strlen subscribe sunion sunionstore swapdb time touch
  ttl type unlink unsubscribe unwatch wait watch xack xadd xclaim xdel xgroup xinfo xlen xpending xrange xread
  xreadgroup xrevrange xsetid xtrim zadd zcard zcount zincrby zinterstore zlexcount zpopmax zpopmin zrange
  zrangebylex zrangebyscore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex
  zrevrangebyscore zrevrank zscan zscore zunionstore
`
  .trim()
  .split(/\s+/);

/** The options of the commands that the scripts use. */
export const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  SET: ['EX', 'PX', 'NX', 'XX', 'KEEPTTL'],
  XADD: ['MAXLEN', '~', '*'],
  XRANGE: ['COUNT'],
  ZADD: ['NX', 'XX', 'CH', 'INCR'],
  ZRANGEBYSCORE: ['WITHSCORES', 'LIMIT'],
  ZREVRANGE: ['WITHSCORES'],
};
