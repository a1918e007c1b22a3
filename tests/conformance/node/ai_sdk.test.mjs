// Vercel's AI SDK: its provider for servers like OpenAI's, and OpenAI's own, which asks for responses.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import * as service from "./service.mjs";

const { ANSWER, EMBEDDER, KEY, MODEL, QUESTION, ROOMS, WRITER } = service;
const alike = (baseURL) =>
  createOpenAICompatible({
    name: "dragon", baseURL, apiKey: KEY, includeUsage: true, supportsStructuredOutputs: true,
  });
const PROVIDERS = {
  alike,
  own: (baseURL) => createOpenAI({ baseURL, apiKey: KEY }),
};
const once = { temperature: 0, maxRetries: 0 };
const Place = z.object({ room: z.enum(ROOMS) });

for (const [name, at] of Object.entries(PROVIDERS)) {
  test(`${name}: texts`, async () => {
    const model = at(service.DEVICE)(MODEL);
    const reply = await generateText({ model, system: "Be brief.", prompt: QUESTION, ...once });
    assert.match(reply.text, ANSWER);
    assert.equal(reply.finishReason, "stop");
    assert.ok(reply.usage.outputTokens > 0);
  });

  test(`${name}: streams`, async () => {
    const reply = streamText({ model: at(service.DEVICE)(MODEL), prompt: QUESTION, ...once });
    let text = "";
    for await (const piece of reply.textStream) text += piece;
    assert.match(text, ANSWER);
    assert.ok((await reply.usage).outputTokens > 0);
  });

  test(`${name}: functions, and a second step with what they returned`, async () => {
    const asked = [];
    const execute = ({ room }) => { asked.push(room); return "It hangs on a hook."; };
    const reply = await generateText({
      model: at(service.WITH_TOOLS)("model"),
      prompt: "Where is the key?",
      tools: { find_key: tool({ description: "Look in a room.", inputSchema: Place, execute }) },
      toolChoice: "required",
      stopWhen: stepCountIs(2),
      ...once,
    });
    assert.equal(reply.steps.length, 2);
    assert.ok(asked.length && asked.every((room) => ROOMS.includes(room)));
  });

  test(`${name}: objects`, async () => {
    const reply = await generateText({
      model: at(service.WRITING)(WRITER),
      prompt: "The key hangs in the attic. Where is it?",
      output: Output.object({ schema: Place }),
      ...once,
    });
    assert.ok(ROOMS.includes(reply.output.room));
  });
}

test("embeddings", async () => {
  const model = alike(service.DEVICE).embeddingModel(EMBEDDER);
  const { embeddings } = await embedMany({ model, values: ["One", "Two"], maxRetries: 0 });
  assert.deepEqual(embeddings.map((each) => each.length), [384, 384]);
});
