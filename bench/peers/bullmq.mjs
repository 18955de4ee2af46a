// SPDX-License-Identifier: Apache-2.0
// BullMQ under the load of bench/load.c: its worker, and a client that submits and waits
//
//     node bullmq.mjs worker
//     node bullmq.mjs load [--jobs N] [--window N] [--steps N] [--fan]
//
// A chain is a flow: each job has the job of the step before as its only child, and the client adds
// all of them in one atomic call. A job of BullMQ has one parent only, so a fan is a first job whose
// worker adds a flow of the others: one parent with all of them as children. What each job gets and
// returns is a text of a hundred bytes. The figures are those of bench_print() in bench/peer.c.
import { parseArgs } from 'node:util'
import { FlowProducer, QueueEvents, Worker } from 'bullmq'
import { Redis } from 'ioredis'

const QUEUE = 'steps'
const PREFIX = `load-${Date.now()}` // of the jobs' ids
const INPUT = 'x'.repeat(100)
const PATIENCE_MS = 60000 // for the next event
const CONCURRENCY = 64 // as the agent of Drover has it in this comparison

const connection = {
  host: '127.0.0.1',
  port: Number(process.env.DROVER_TEST_REDIS_PORT),
  maxRetriesPerRequest: null // as a worker needs it
}
const flows = new FlowProducer({ connection })

const job = (name, more = {}) => ({ name, queueName: QUEUE, data: { input: INPUT }, ...more })

function chain (jobId, steps) {
  let flow = job('step')
  for (let step = 1; step < steps; step++) flow = job('step', { children: [flow] })
  return { ...flow, opts: { jobId } }
}

function fan (jobId, width) {
  return job('step', { opts: { jobId }, children: Array.from({ length: width }, () => job('step')) })
}

async function work ({ name, data }) {
  if (name === 'first') await flows.add(fan(data.last, data.width))
  return data.input
}

async function serve () {
  const worker = new Worker(QUEUE, work, { connection, concurrency: CONCURRENCY })
  worker.on('error', problem => console.error(problem))
  process.on('SIGTERM', async () => {
    await worker.close()
    process.exit()
  })
  await worker.waitUntilReady()
  console.log('ready')
}

// Calls ended(jobId) for each job of BullMQ that is completed from now on.
async function listen (ended) {
  const redis = new Redis(connection)
  const [last] = await redis.xrevrange(`bull:${QUEUE}:events`, '+', '-', 'COUNT', 1)
  await redis.quit()
  const events = new QueueEvents(QUEUE, { connection, lastEventId: last ? last[0] : '0-0' })
  events.on('completed', ({ jobId }) => ended(jobId))
  events.on('failed', ({ failedReason }) => fail(failedReason))
  await events.waitUntilReady()
}

function fail (why) {
  console.error(why)
  process.exit(1)
}

async function load ({ jobs, window, steps, fan }) {
  const began = new Map()
  const latency = []
  let begun = 0
  let done
  let watch
  const all = new Promise(resolve => { done = resolve })

  async function begin () {
    const jobId = `${PREFIX}-${begun++}`
    began.set(jobId, performance.now())
    await (fan
      ? flows.add(job('first', { data: { input: INPUT, last: jobId, width: steps - 2 } }))
      : flows.add(chain(jobId, steps)))
  }

  function ended (jobId) {
    if (!began.has(jobId)) return // a step within
    latency.push(performance.now() - began.get(jobId))
    began.delete(jobId)
    watch.refresh()
    if (begun < jobs) begin().catch(fail)
    if (latency.length === jobs) done()
  }

  await listen(ended)
  await flows.waitUntilReady()
  watch = setTimeout(fail, PATIENCE_MS, 'waiting for an event')
  const start = performance.now()
  while (begun < Math.min(window, jobs)) begin().catch(fail)
  await all
  const seconds = (performance.now() - start) / 1000
  latency.sort((a, b) => a - b)
  console.log(JSON.stringify({
    jobs,
    steps: jobs * steps,
    seconds,
    steps_per_second: jobs * steps / seconds,
    p50_ms: latency[Math.floor(jobs / 2)],
    p99_ms: latency[Math.floor(jobs * 99 / 100)]
  }))
  process.exit()
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string', default: '1000' },
    window: { type: 'string', default: '50' },
    steps: { type: 'string', default: '5' },
    fan: { type: 'boolean', default: false }
  }
})

if (positionals[0] === 'worker') {
  await serve()
} else {
  const [jobs, window, steps] = [values.jobs, values.window, values.steps].map(Number)
  await load({ ...values, jobs, window, steps })
}
