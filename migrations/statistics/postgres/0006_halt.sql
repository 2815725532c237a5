-- Why the log is neither signed nor extended, as JSON with the checkpoint that it does not continue. Set by the process that noticed,
-- followed by every other one, emptied by a new epoch.
ALTER TABLE sequencer ADD COLUMN halted TEXT;
