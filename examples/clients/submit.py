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
        if receipt == "RECEIPT_CODE_ALREADY":  # it may have ended long ago
            query = {"jobId": sys.argv[1], "commandId": "end", "query": {}}
            channel.basic_publish("drover.control", "control", json.dumps(query), kept)
        elif receipt != "RECEIPT_CODE_CREATED":
            sys.exit(1)
    elif method and properties.type == "drover.v1.Answer":
        message = message["status"]
    if message.get("outcome"):  # of a JobEvent, or of the job's status
        print(message["outcome"], json.dumps(message.get("results", [])))
        sys.exit(0 if message["outcome"] == "OUTCOME_SUCCEEDED" else 1)
