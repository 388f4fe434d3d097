-- Around a script of an algorithm with a section `signals`: its errors for the caller become values, because clients have hooks for errors.
--
-- KEYS:  the keys of the script
-- ARGV:  the arguments of the script
-- Reply: that of the script; or the text of the error

local function headgate_script()

--- section end

end
local done, reply = pcall(headgate_script)
if done then return reply end
if type(reply) == 'string' and string.find(reply, headgate_signals) then return reply end
error(reply, 0)
