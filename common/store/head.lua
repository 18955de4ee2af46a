#!lua name=drover1
-- SPDX-License-Identifier: Apache-2.0
--
-- The store functions. Each transition of a job is one call of one of them. A call is atomic, and
-- touches one partition.
--
-- KEYS[1] is the key prefix of the partition with its hash tag, such as "drover:{p3}:". Arguments
-- and answers are flat lists of strings; schema.txt says what stands where in them, and
-- common/model/store_ops.h is the C side.
--
-- Rules. A function checks everything before its first write, because Redis isolates a call, but
-- does not roll it back. It reads the clock once. Nonces, from which tokens are made, and random
-- fractions come from the caller. Every call may be repeated. For what follows from a change, a
-- call works on at most BUDGET steps, besides those that its arguments name. If work is left, the
-- job's cursor keeps it, the job is due soon, and the answer says `more`.
--
-- A store function `x` is functions.x(). Its first parameter, p, is the prefix of the partition.
-- Its arguments follow, with the names and in the order of schema.txt. Repeated arguments are
-- list[first], list[first + 1] … If each of them is a list x of the values a and b, a loop over
-- them is "for _, a, b in each.x(list, first) do"; or, with x as the only variable, x is a table
-- with the fields a and b. The first line of the comment of a store function has its answer. The
-- build compares all that with schema.txt.
--
-- Letters. What the store keeps, and what calls and answers have, is often one letter. schema.txt
-- gives names to these letters: STEP.PARKED stands for 'P'. The build puts the letter in place of
-- the name, so a name costs nothing.
--
-- Each part of the library is a file of this folder. In the library it is a block of its own, so
-- its locals are its own. The names that a part gives to other parts are declared here, below the
-- name of the part. The build joins the parts in this order, and compares them with this list. For
-- a line of the library, such as one that an error of Redis names, library.py finds the part and
-- its line.
--
-- Keys of a partition (p = KEYS[1]); docs/OPERATIONS.md, "A job's record", has the fields of a job
-- and of its data:
--   p job:<id>      hash   the job; a field for each step, by number, absent until first touched;
--                          b<step>: an agent may have begun a dispatch of it, see step_was_begun();
--                          k<step>: the job's `since` when it was parked, see add_parked()
--   p data:<id>     hash   input, labels, reply_to …; r<step> results, e<step> last errors, a<step>
--                          arguments from a person; change: a command that waits, see `change`;
--                          p<step> the last Progress and t<step> the token of a request that left
--                          its queue, see has_evidence(); c<step> the token of a request that was
--                          sent once more; x<step> that token and the time of a loss, if it was
--                          sent because the broker had lost it; u<step> the token of a request that
--                          `unsent` has found wanted, and the number of that call …
--   p hist:<id>     list   the history: "seq time event …", numbered, of bounded length
--   p def:<digest>  hash   a definition: n, blob, refs, what drive needs of each step, and x<name>,
--                          the number of the step of that name
--   p workflows     hash   name@version -> digest, name -> newest version
--   p defs          zset   definitions that no job uses yet, by the time at which they were stored
--   p due           zset   unfinished jobs; the score is a time before which `expire` need not
--                          inspect the job
--   p open          zset   unfinished jobs, by creation; p settled: ended jobs, by when they ended
--   p jobs          zset   all jobs by creation, for people; likewise p failed: those in ERROR,
--                          p w:<name>: those of a workflow, p l:<name>=<value>: those with a label;
--                          p l:=<user>: those of an owner
--   p needs         zset   jobs that need attention, by creation; p needs:<kind>: those of a kind
--   p owed          zset   the outbox: "<job> <seq>" of each notification (the end of a turn, or an
--                          alert about a job), by the time at which the supervisor asks a
--                          scheduler for it
--   p told          hash   alert cause, "<reason> <actor>" or another text -> "<known until> <nonce
--                          of the scheduler that is publishing the alert>". The field `letters` is
--                          different: see unknown_letters()
--   p lost          hash   actor, or * for all -> when it was last recorded that the broker has
--                          lost the messages of its dispatches
--   p suspects      hash   digest of a suspect -> "<time> <incarnation>[!] …": incarnations that
--                          have begun it, ! if alone, and when that was last recorded
--   p leader        string "<supervisor> <until> <lease>"
--   p clock         string "<seen> <quiet until> <steps back> <jumped at> <by> <swept>", see
--                          watch_clock()
--   p supervisors   hash   supervisors that are alive, leading or not -> "<until> <lease>"
--   p users         hash   user -> bytes that its jobs take, if jobs have owners: see cost_of()
--   p mark          hash   count: the watermark, which counts created jobs and ended turns; id,
--                          run and began: see `mark`. A lower count than one that a scheduler
--                          remembers shows that the store went back

local BUILD = 51
local FORMAT = '3'               -- of definitions; a scheduler stores those of another format again

local BUDGET = 250               -- most steps of a call, besides those it is given: about 3 ms
local CHUNK = 500                -- step numbers in one piece of a list of dependents
local HISTORY_MIN = 1000         -- history entries kept of a job, or four for each step if more
local ASK_AGAIN = 5000           -- ms after which `expire` asks again for a step or a notification
local DAY = 86400000             -- ms; limits doubled silence intervals, and waits between passes
local SWEEP_BOUND = 600000       -- ms; `expire` inspects a job that has begun at least this often
local NO_EVIDENCE = '?'          -- in place of a token: see the record of a step
local SILENCE_OVER = '!'         -- likewise: the silence interval is over, and one dispatch is due
local NO_STEP = 4294967295       -- step number in an alert or an answer that concerns no step
local DATA_MAX = 67108864        -- bytes of input and results of a job: 64 MiB
local WAIT_CAP = 3600000         -- ms; the longest doubled wait of a request

-- The store functions. The other two are filled by the part that the build makes from schema.txt:
-- calls passes the functions their arguments, schema has the lists of hash fields in answers.
local functions, calls, schema = {}, {}, {}
-- Functions of the commands, and functions about the deadline of a job, about the failures that
-- decide its direction or its end, and about a change that waits.
local commands, deadline, deciding, change = {}, {}, {}, {}

-- Globals of Lua. Access to locals of the same names, which set_up() sets, costs less.
local function globals()
  return ipairs, tonumber, unpack
end

local ipairs, tonumber, unpack, floor, min, max, format, match, gmatch, sub, concat, call

-- schema.txt: the part that the build generates from it hands the store functions their arguments

-- basics.lua: what Redis and Lua offer, texts of numbers, and lists in one text
local set_up, int, num, now_ms, split_texts

-- definitions.lua: definitions of workflows; `define`
local numbers, definition_of, step_of, is_other_step, prefetch, terms_of, is_other_actor,
  dependents_at, release_definition, hold_definition, find_definition

-- job.lua: the job that a call works on, and the records of its steps
local parse_record, record_text, under_way, text_under_way, job_new, is_rare, load, try_job,
  count_up, add_history, lower_due, finished, can_dispatch, has_cursor_work, set, is_others,
  set_data, deadline_unhandled

-- outcome.lua: deciding failures, notifications and alerts, the end of a turn
local move_watermark, class_of, set_attention_cause, alert, alert_job, settle, reopen

-- save.lua: writes what a call has changed in a job
local save

-- dispatch.lua: dispatches, and requests that are sent once more
local set_state, n_before, n_next, next_at, record_of, is_bounded, time_left,
  cut_by_deadline, wait_of, wait_left, next_asked, is_same_work, make_token, token_id,
  set_in_flight, dispatch, add_in_flight, add_in_flight_after, is_obsolete, progress_of

-- transitions.lua: transitions of steps and jobs
local walk_has_passed, pass_over, remove_parked, begin, come_to_rest, add_parked, park,
  is_older_job, silence_ends, why_used_up, set_failed_counts, apply_deadline, count_anew, turn,
  end_as_it_is, remove_failed, add_walk, give_up

-- walks.lua: the cursor, and its walks over the steps
local walk_ahead, reset_counts, has_tried, retry_applies, retry_ahead, work_off_all

-- answers.lua: answers of the functions that change a job
local put, put_transition, only_code, put_code

-- lost.lua: messages that the broker has lost; `lost`
local losses, was_sent_again, is_lost, send_again

-- clock.lua: the store's clock
local read_clock, write_clock, watch_clock, is_quiet, lease_end

-- submit.lua: `submit`
local index_keys, over_bytes

-- record.lua: `record`, `unsent`

-- renew.lua: `renew`, `taken`

-- expire.lua: `expire`

-- drive.lua: `drive`
local next_run, drive_on, put_on_hold

-- commands.lua: commands of people and clients
local reset_step, begin_anew, resume_after_failure, no_retry, no_tries

-- change.lua: a change of a step, and how it waits for undos
local take_definition, is_ready, present, target, before_other_work, put_off

-- migrate.lua: the command `migrate`

-- steer.lua: `steer`

-- notifications.lua: `settle_owed`, `defer_owed`, `told`, `step_events`
local failed_tries, notification_of

-- inspect.lua: `inspect`

-- processes.lua: `lead`, `mark`, `suspect`

-- forget.lua: `forget`

-- sweep.lua: `sweep`

-- registration.lua: `look`, `version`, and the registration with Redis
