-- What a script sees inside Redis and Valkey.
std = 'lua51'
read_globals = { 'redis', 'struct', 'cjson', 'cmsgpack', 'bit', 'KEYS', 'ARGV' }
max_line_length = false
-- Each function takes the time at which to decide, which is the script's.
ignore = { '431/now' }
