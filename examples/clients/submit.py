#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Submits a job of one step and waits for its end

    python3 examples/clients/submit.py JOB [amqp://user:password@host/vhost]
"""
import json
import sys

import pika

url = sys.argv[2] if len(sys.argv) > 2 else "amqp://guest:guest@localhost/%2F"
channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
channel.confirm_delivery()
queue = channel.queue_declare("", exclusive=True).method.queue
steps = [{"name": "greet", "actor": "echo"}]
submit = {"jobId": sys.argv[1], "definition": {"steps": steps}, "input": {"json": "hello"}}
kept = pika.BasicProperties(delivery_mode=2, reply_to=queue)
receipt = None
channel.basic_publish("drover.submit", "submit", json.dumps(submit), kept, mandatory=True)
for method, properties, body in channel.consume(queue, auto_ack=True, inactivity_timeout=5):
    message = json.loads(body) if method else {}
    if not method and not receipt:  # the same again, until there is a Receipt
        channel.basic_publish("drover.submit", "submit", json.dumps(submit), kept, mandatory=True)
    elif method and properties.type == "drover.v1.Receipt":
        receipt = message["code"]
        print(receipt, message.get("field", ""), message.get("reason", ""))
        if receipt not in ("RECEIPT_CODE_CREATED", "RECEIPT_CODE_ALREADY"):
            sys.exit(1)
    elif method and message["kind"] == "EVENT_KIND_SETTLED":
        print(message["outcome"], json.dumps(message.get("results", [])))
        sys.exit(0 if message["outcome"] == "OUTCOME_SUCCEEDED" else 1)
