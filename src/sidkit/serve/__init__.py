"""`sidkit serve`: semantic IDs online.

options       what a service is made of, and its limits, as plain values
snapshot      a tokenizer and what goes with it, loaded together and replaced together
published     items and SIDs by look-up: a table or a registry
batching      vectors of many requests encoded together
bodies        requests and answers as JSON and as Arrow
unpacked      what an Arrow body takes in memory, before it is read
endpoints     from a request to an answer
openapi       the description of the API
metrics       what Prometheus reads
app           the ASGI application
run           the processes
"""
