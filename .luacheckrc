-- What a script sees inside Redis and Valkey.
std = 'lua51'
read_globals = { 'redis', 'struct', 'cjson', 'cmsgpack', 'bit', 'KEYS', 'ARGV' }
max_line_length = false
-- The common case stands at the top of a script, so its locals have the names that the functions after it use for their own.
-- Each algorithm of a script tells in `kernel_...` what a script for one algorithm calls; others leave it unused.
ignore = { '211/kernel_.*', '221/kernel_.*', '411/kernel_.*', '212/text', '42.', '43.' }
