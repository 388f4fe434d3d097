-- Attempts: a policy that counts attempts is charged for requests that another policy denies.
--
-- KEYS:  none
-- ARGV:  none
-- Reply: empty

--- section charges

charges = true

--- section due

is_due = is_due or policy.attempts

--- section charged_denied

-- A second look includes the attempt in `retryAfter`. The verdict still admits, and also contains the wait.
for i = 1, admitted and 0 or count do
  local verdict = verdicts[i]
  local policy = verdict.policy
  if verdict.is_charged then
    local wait, remaining, reset = policy.look(verdict.key, policy, verdict.cost, now, false)
    verdict.wait, verdict.remaining, verdict.reset = wait == 0 and 0 or -1 - wait, remaining, reset
  end
end
