-- What a script sees inside Redis and Valkey.
std = 'lua51'
read_globals = { 'redis', 'struct', 'cjson', 'cmsgpack', 'bit', 'KEYS', 'ARGV' }
max_line_length = false
