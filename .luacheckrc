-- What a script sees inside Redis and Valkey.
std = 'lua51'
read_globals = { 'redis', 'struct', 'cjson', 'cmsgpack', 'bit', 'KEYS' }
-- Scripts replace arguments by numbers, because Lua converts text slowly.
globals = { 'ARGV' }
max_line_length = false
-- The common case is at the top of a script, so its locals have the names that the functions after it use for their own.
-- `kernel_...` are the names by which a script calls an algorithm. Not every script uses all of them, nor `fixed_window_ended`.
ignore = { '211/kernel_.*', '211/fixed_window_ended', '221/kernel_.*', '411/kernel_.*', '212/text', '42.', '43.' }
