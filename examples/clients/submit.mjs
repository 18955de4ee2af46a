#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// A client in Node, in JSON: submits a job with a step for each actor, and waits for its end
//
//     npm ci --prefix examples
//     AMQP_URL=amqp://... node examples/clients/submit.mjs JOB INPUT ACTOR...
//
// For amqps://: --ca-file FILE (authorities, PEM; else those of Node), and --cert-file FILE and
// --key-file FILE, if the broker wants a certificate.
//
// Exits with 0: succeeded; 1: refused; 2: wrong arguments; 3: another outcome; 4: cancelled or
// compensated; 6: another job has this id; 7: connection to RabbitMQ lost. It may be run again with
// the same arguments, and goes on waiting.
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import amqp from 'amqplib'

const EXITS = { OUTCOME_SUCCEEDED: 0, OUTCOME_CANCELLED: 4, OUTCOME_COMPENSATED: 4 }
const REFUSALS = { RECEIPT_CODE_REJECTED: 1, RECEIPT_CODE_CONFLICT: 6 }

const file = { type: 'string' }
const { values, positionals } = parseArgs({
  options: { 'ca-file': file, 'cert-file': file, 'key-file': file }, allowPositionals: true })
const [jobId, text, ...actors] = positionals
if (actors.length === 0) {
  console.error('usage: submit.mjs JOB INPUT ACTOR...')
  process.exit(2)
}
const steps = actors.map((actor, i) => (
  { name: `step${i}`, actor, action: 'echo', after: i > 0 ? [`step${i - 1}`] : [] }))
// made once: another content would be a CONFLICT
const submit = { jobId, input: { text }, definition: { steps } }

function fail (problem) {
  console.error(`RabbitMQ: ${problem?.message ?? 'the connection or the queue is gone'}`)
  process.exit(7)
}

// Node verifies chain and host, and speaks TLS 1.2 at least.
const read = path => path && readFileSync(path)
const tls = {
  ca: read(values['ca-file']), cert: read(values['cert-file']), key: read(values['key-file']) }
const url = process.env.AMQP_URL ?? 'amqp://guest:guest@localhost/%2F'
const connection = await amqp.connect(url, tls).catch(fail)
connection.on('error', fail).on('close', fail)
const channel = await connection.createConfirmChannel()
channel.on('error', fail).on('return', () => fail(new Error('no queue takes this')))
const { queue } = await channel.assertQueue('', { exclusive: true })

// the owner of the job; the broker refuses another name than the login
const userId = decodeURIComponent(new URL(url).username)

function send (exchange, key, message) {
  const kept = { persistent: true, mandatory: true, replyTo: queue, userId }
  channel.publish(exchange, key, Buffer.from(JSON.stringify(message)), kept)
}

function ended ({ outcome }, payloads) {
  console.log(outcome, ...payloads.map(payload => payload?.text ?? JSON.stringify(payload)))
  process.exit(EXITS[outcome] ?? 3)
}

const handlers = {
  'drover.v1.Receipt' ({ code, field = '', reason = '' }) {
    console.log(code, field, reason)
    if (code in REFUSALS) process.exit(REFUSALS[code])
    if (code === 'RECEIPT_CODE_CREATED' || code === 'RECEIPT_CODE_ALREADY') clearInterval(repeat)
    if (code === 'RECEIPT_CODE_ALREADY') { // it may have ended long ago
      send('drover.control', 'control', { jobId, query: { withData: true } })
    }
  },
  'drover.v1.JobEvent' (event) {
    ended(event, (event.results ?? []).map(result => result.payload))
  },
  'drover.v1.Answer' ({ status }) {
    if (status?.outcome) ended(status, [status.steps.at(-1).result])
  }
}
await channel.consume(queue, message => {
  if (!message) fail()
  handlers[message.properties.type]?.(JSON.parse(message.content))
}, { noAck: true })

const again = () => send('drover.submit', 'submit', submit)
const repeat = setInterval(again, 5000) // repeated until there is a Receipt
again()
