// `openai` for Node.

import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI, { toFile } from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import * as service from "./service.mjs";

const { ANSWER, EMBEDDER, KEY, MODEL, QUESTION, ROOMS, WRITER } = service;
const at = (baseURL) => new OpenAI({ baseURL, apiKey: KEY, maxRetries: 0 });
const client = at(service.DEVICE);
const ask = { model: MODEL, messages: [{ role: "user", content: QUESTION }], temperature: 0 };

test("models", async () => {
  const models = await client.models.list();
  assert.deepEqual(models.data.map((model) => model.id), [MODEL, EMBEDDER]);
});

test("completions", async () => {
  const prompt = { model: MODEL, prompt: "The capital of France is", max_tokens: 8 };
  assert.ok((await client.completions.create(prompt)).choices[0].text);
});

test("a chat", async () => {
  const reply = await client.chat.completions.create(ask);
  assert.match(reply.choices[0].message.content, ANSWER);
  assert.equal(reply.choices[0].finish_reason, "stop");
  const { prompt_tokens, completion_tokens, total_tokens } = reply.usage;
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
});

test("a streamed chat", async () => {
  const stream = client.chat.completions.stream({ ...ask, stream_options: { include_usage: true } });
  let text = "";
  stream.on("content", (delta) => { text += delta; });
  assert.match(await stream.finalContent(), ANSWER);
  assert.match(text, ANSWER);
  assert.ok((await stream.totalUsage()).completion_tokens > 0);
});

test("leaving a stream", async () => {
  const stream = await client.chat.completions.create({ ...ask, stream: true });
  for await (const _ of stream) break;
  assert.ok((await client.chat.completions.create({ ...ask, max_tokens: 1 })).choices[0].message);
});

test("functions", async () => {
  const parameters = z.object({ room: z.enum(ROOMS) });
  const reply = await at(service.WITH_TOOLS).chat.completions.parse({
    model: "model",
    messages: [{ role: "user", content: "Where is the key?" }],
    tools: [zodFunction({ name: "find_key", parameters })],
    tool_choice: "required",
  });
  const [call] = reply.choices[0].message.tool_calls;
  assert.equal(call.function.name, "find_key");
  assert.ok(ROOMS.includes(call.function.parsed_arguments.room));
});

test("a format", async () => {
  const reply = await at(service.WRITING).chat.completions.parse({
    model: WRITER,
    messages: [{ role: "user", content: "Where is the key?" }],
    response_format: zodResponseFormat(z.object({ room: z.enum(ROOMS) }), "place"),
  });
  assert.ok(ROOMS.includes(reply.choices[0].message.parsed.room));
});

test("responses", async () => {
  const asked = { model: MODEL, input: QUESTION, temperature: 0 };
  const first = await client.responses.create(asked);
  assert.match(first.output_text, ANSWER);
  const stream = client.responses.stream({ ...asked, previous_response_id: first.id });
  const second = await stream.finalResponse();
  assert.equal(second.status, "completed");
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
});

test("embeddings", async () => {
  const input = ["The cat sleeps.", "A cat is asleep.", "Interest rates rose."];
  const reply = await client.embeddings.create({ model: EMBEDDER, input });
  const [a, b, c] = reply.data.map((each) => each.embedding);
  const alike = (x, y) => x.reduce((sum, value, place) => sum + value * y[place], 0);
  assert.ok(alike(a, b) > 0.7);
  assert.ok(alike(a, c) < 0.4);
});

test("files", async () => {
  const text = "The shed's code is 5512-K.\n";
  const file = await toFile(Buffer.from(text), "shed.txt");
  const uploaded = await client.files.create({ file, purpose: "user_data" });
  await client.files.waitForProcessing(uploaded.id, { pollInterval: 100 });
  assert.equal(await (await client.files.content(uploaded.id)).text(), text);
  assert.ok((await client.files.delete(uploaded.id)).deleted);
});

test("errors", async () => {
  const stranger = new OpenAI({ baseURL: service.DEVICE, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(async () => stranger.models.list(), OpenAI.AuthenticationError);
  const long = [{ role: "user", content: "word ".repeat(5000) }];
  await assert.rejects(
    async () => client.chat.completions.create({ ...ask, messages: long, stream: true }),
    { code: "context_length_exceeded" },
  );
});
