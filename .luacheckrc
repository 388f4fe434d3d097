-- What a script sees inside Redis and Valkey.
std = 'lua51'
read_globals = { 'redis', 'struct', 'cjson', 'cmsgpack', 'bit', 'KEYS', 'ARGV' }
max_line_length = false
-- Each function takes the time at which to decide, which is the script's.
-- Each algorithm of a script tells in `kernel_...` what a script for one algorithm calls.
ignore = { '431/now', '411/kernel_.*' }
