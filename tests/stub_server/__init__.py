"""A stub of the model providers: a real HTTP server on loopback that speaks OpenAI's and Anthropic's protocols.

It serves chat completions, messages, both kinds of batches, files and model listings (Azure's addresses too), goes
wrong as scripted, and counts what it saw. Tests talk to it through the real SDKs.

In a thread of the test process (the `stub` fixture is `StubServer()`):

    with StubServer(keys={"sk-good"}, models=["judge"], latency=0.05) as server:
        client = OpenAI(base_url=server.openai_url, api_key="sk-good")            # Anthropic: server.anthropic_url
        server.settings.script = Script.rates({"rate_limited": 0.1, "fenced": 0.05}, seed=7)
        …
        assert server.log.ok == 20 and not server.log.repeated
        assert server.log.faults["rate_limited"] == 2

In a process of its own, where clients are killed or timed (the `stub_process` fixture is `StubProcess()`); settings
and scripts are JSON then, and a brain is "default", {"kind": "audit", "marks": …, "up": …, "down": …} or
"module:object" with a module that is found from tests/:

    with StubProcess(latency=1.0, keep_bodies=False, script={"rates": {"server_error": 0.1}}) as server:
        …
        assert server.counters()["ok"] == 2000

From a shell: `python tests/stub_server --port 0 --settings '{"latency": 1.0}'` prints {"url": …, "pid": …} and serves
until it is killed.

Replies. A `Brain` is a callable from `Ask` to a text; `settings.brain = lambda ask: "4"` is one. `DefaultBrain` fills
the request's JSON schema (OpenAI's response_format, Anthropic's output_config.format), answers a digit where logprobs
are asked for, and a paragraph otherwise, all from a SHA-256 of the request: the same request has the same reply. Only
a free text depends on more: on the header `x-client-request-id` (in a batch on the same part of the custom id, else on
the body's `seed`) if there is one, or on how many replies that content had before, so that N equal prompts give N
texts. Runs that must be repeatable to the byte send that header or use `DefaultBrain(distinct=False)`. `AuditBrain`
plants marks in what it generates and scores by them.
Token counts are bytes of UTF-8 / 4, rounded up; a reply longer than the request's limit is cut as `length`.

Faults. `Script([Rule(kind, …), …], seed)`: the first rule that fires decides; kinds and conditions are in `faults.py`.

    Script.rates({kind: share})                              by SHA-256(seed, kind, content): independent of arrival
    Rule("server_error", attempts=2)                         the first two attempts of every content
    Rule("dropped", request=5)                               the fifth call of all
    Rule("refusal", contains="Task 3")                       always, for prompts with that text
    Rule("out_of_range", share=0.1, attempts=1, value="4/5") recovers after one attempt
    Rule("expired", custom_id="*7")                          items of batches
    Rule("reply_lost", path="POST /v1/batches", times=1)     the batch exists, the client never learns its id
    Rule("dropped_midway", path="GET /v1/files/*/content", times=1)

With shares, transport faults hit the first attempt of a content only (`attempts=None, redraw=True`: each attempt
anew), and reply faults follow the content through all its attempts (`attempts=n`: until the n-th). A repair is another
content, and is drawn for itself. Samples of one prompt are one content unless the sample header tells them apart.

What was seen. `server.log` (a `Log`): calls, items, records, ok, in_flight, peak, keyless, statuses, faults, paths,
asked, answered, repeated, tokens(), counters(). `server.wait_until(lambda log: log.ok >= 5)` waits. Over HTTP, which
`StubProcess` does for you: GET /_stub/counters, GET /_stub/log?since=n, POST /_stub/reset, POST /_stub/script and
POST /_stub/settings. Money spent is `log.tokens()`: all that was billed, lost replies included.

Batches run as `settings.batch` (a `BatchPlan`) says: so many polls find them running, then they end, with results in a
scrambled order. Whole batches fail by `BatchPlan(fail=…)`.
"""

from stub_server.asks import Ask
from stub_server.brains import AuditBrain, Brain, DefaultBrain
from stub_server.faults import Rule, Script
from stub_server.log import Log, Record
from stub_server.server import StubProcess, StubServer
from stub_server.settings import BatchPlan, ModelFacts, Settings

__all__ = [
    "Ask",
    "AuditBrain",
    "BatchPlan",
    "Brain",
    "DefaultBrain",
    "Log",
    "ModelFacts",
    "Record",
    "Rule",
    "Script",
    "Settings",
    "StubProcess",
    "StubServer",
]
