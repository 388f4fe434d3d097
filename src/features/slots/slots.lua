-- Slots: the units of policies with slots are held under the name of the request's lease.
--
-- KEYS:  none
-- ARGV:  `lease`, per request: its lease
-- Reply: empty

--- section read

lease = ARGV[lease_at + request]
