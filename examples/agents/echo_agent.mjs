#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// An agent in Node, several steps at a time
//
//     npm ci --prefix examples
//     AMQP_URL=amqp://... node examples/agents/echo_agent.mjs [ACTOR]
//
// For amqps://: --ca-file FILE (authorities, PEM; else those of Node), and --cert-file FILE and
// --key-file FILE, if the broker wants a certificate.
//
// On SIGTERM it finishes its work and ends. If it loses the connection it exits with 1 and must be
// started again.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import amqp from 'amqplib'
import protobuf from 'protobufjs'

const file = { type: 'string' }
const { values, positionals } = parseArgs({
  options: { 'ca-file': file, 'cert-file': file, 'key-file': file }, allowPositionals: true })
const ACTOR = positionals[0] ?? 'echo'
const DISABLED = 1, PERMANENT = 2 // State, Verdict
const proto = new protobuf.Root()
proto.resolvePath = (from, name) => fileURLToPath(new URL(`../../proto/${name}`, import.meta.url))
await proto.load('drover/v1/task.proto')
const Requests = proto.lookupType('drover.v1.Requests')
const Replies = proto.lookupType('drover.v1.Replies')

// Returns the result of the step before, or else the job's input, with the actor's name appended.
// The signal comes when the lease ends. A step may run more than once: pass idempotencyKey to the
// services that you call.
async function run ({ idempotencyKey, results, input }, signal) {
  const { contentType, data } = results[0]?.payload ?? input ?? { data: Buffer.of() }
  return { contentType, data: Buffer.concat([data, Buffer.from(`, ${ACTOR}`)]) }
}

// Publishes a reply, which must not be lost, or a Progress, which is of no use later.
function say (message, expiration) {
  const isReply = expiration === undefined
  const kept = { persistent: isReply, mandatory: isReply, expiration }
  const body = Buffer.from(Replies.encode(message).finish())
  const contentType = 'application/protobuf'
  channel.publish(`drover.reply.${ACTOR}`, 'reply', body, { ...kept, contentType })
}

// Returns the reply, or null if the lease has ended: then no reply is sent.
async function answer (request) {
  const { jobId, step, token, desired, lockMs } = request
  const received = performance.now()
  // Evidence that this agent has begun: if it crashes, LockedUntil is the end of its lease.
  const begun = setTimeout(() => {
    const elapsedMs = Math.round(performance.now() - received)
    say({ progress: [{ jobId, step, token, fraction: -1, elapsedMs }] }, lockMs - elapsedMs)
  }, Math.min(lockMs / 4, 2 ** 31 - 1))
  const signal = AbortSignal.timeout(Math.min(lockMs, 2 ** 31 - 1))
  const lease = new Promise(resolve => signal.addEventListener('abort', resolve))
  const work = async () => {
    if (desired === DISABLED) return { error: { message: 'cannot take back', verdict: PERMANENT } }
    return { result: await run(request, signal), achieved: desired }
  }
  const failed = problem => ({ error: { message: String(problem) } }) // it is tried again
  const outcome = await Promise.race([work().catch(failed), lease])
  clearTimeout(begun)
  return signal.aborted ? null : { jobId, step, token, ...outcome }
}

const atWork = new Map() // token -> promise of its reply; a copy of a request is not begun again
function replyTo (request) {
  const { token } = request
  const reply = atWork.get(token) ?? answer(request).finally(() => atWork.delete(token))
  atWork.set(token, reply)
  return reply
}

async function serve (message) {
  let requests = []
  try {
    const decoded = Requests.decode(message.content)
    requests = Requests.toObject(decoded, { longs: Number, defaults: true }).requests
  } catch {}
  const good = requests.filter(r => r.jobId && r.token && r.lockMs > 0)
  if (good.length === 0 || good.length < requests.length) {
    // For a person; a requeued message would come back.
    const headers = { 'drover-reason': 'MALFORMED' }
    channel.publish('drover.dead', '', message.content, { persistent: true, headers })
  }
  await Promise.all(good.map(async request => {
    const reply = await replyTo(request)
    if (reply) say({ replies: [reply] })
  }))
  await channel.waitForConfirms()
  channel.ack(message) // last: without it the message is delivered again
}

function fail (problem) {
  console.error(`RabbitMQ: ${problem?.message ?? 'the connection or the queue is gone'}`)
  process.exit(1)
}

const running = new Set()
function begin (message) {
  if (!message) fail()
  const done = serve(message).catch(fail).finally(() => running.delete(done))
  running.add(done)
}

// Node verifies chain and host, and speaks TLS 1.2 at least.
const read = path => path && readFileSync(path)
const tls = {
  ca: read(values['ca-file']), cert: read(values['cert-file']), key: read(values['key-file']) }
const url = process.env.AMQP_URL ?? 'amqp://guest:guest@localhost/%2F'
const connection = await amqp.connect(url, tls).catch(fail)
connection.on('error', fail).on('close', fail)
let leaving = false
// A scheduler makes queue and exchange before it sends the first request for the actor.
async function isThere (queue) {
  const probe = await connection.createChannel()
  try {
    probe.on('error', () => {})
    await probe.checkQueue(queue)
    await probe.checkExchange(`drover.reply.${ACTOR}`)
    await probe.close()
    return true
  } catch (problem) {
    return problem.code === 404 ? false : fail(problem)
  }
}
for (const end of ['SIGTERM', 'SIGINT']) process.once(end, () => { leaving = true })
while (!await isThere(`drover.task.${ACTOR}`)) {
  await new Promise(resolve => setTimeout(resolve, 1000))
  if (leaving) process.exit(0)
}
const channel = await connection.createConfirmChannel()
channel.on('error', fail).on('return', () => fail(new Error('no queue takes replies')))
await channel.prefetch(10) // a request must begin when it arrives, as its lease does
const { consumerTag } = await channel.consume(`drover.task.${ACTOR}`, begin)
async function leave () {
  await channel.cancel(consumerTag)
  await Promise.all(running)
  await channel.close() // after the last ack
  connection.off('close', fail)
  await connection.close()
}
process.once('SIGTERM', leave).once('SIGINT', leave)
if (leaving) leave()
