// LangChain.js.

import assert from "node:assert/strict";
import { test } from "node:test";

import { AIMessage, HumanMessage, SystemMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { z } from "zod";

import * as service from "./service.mjs";

const { ANSWER, EMBEDDER, KEY, MODEL, QUESTION, ROOMS, WRITER } = service;
const chat = (baseURL, model) =>
  new ChatOpenAI({ model, temperature: 0, maxRetries: 0, apiKey: KEY, configuration: { baseURL } });
const Place = z.object({ room: z.enum(ROOMS) });

test("a conversation", async () => {
  const turns = [
    new SystemMessage("Be brief."),
    new HumanMessage("Hello"),
    new AIMessage("Good day."),
    new HumanMessage([{ type: "text", text: QUESTION }]),
  ];
  const reply = await chat(service.DEVICE, MODEL).invoke(turns);
  assert.ok(reply.content);
  assert.ok(reply.usage_metadata.output_tokens > 0);
});

test("a streamed chat", async () => {
  let whole;
  for await (const piece of await chat(service.DEVICE, MODEL).stream(QUESTION)) {
    whole = whole ? whole.concat(piece) : piece;
  }
  assert.match(whole.content, ANSWER);
});

test("functions", async () => {
  const find = tool(() => "On a hook.", { name: "find_key", description: "Look.", schema: Place });
  const model = chat(service.WITH_TOOLS, "model").bindTools([find], { tool_choice: "required" });
  const { tool_calls } = await model.invoke("Where is the key?");
  assert.ok(ROOMS.includes(tool_calls[0].args.room));
});

test("objects", async () => {
  const model = chat(service.WRITING, WRITER).withStructuredOutput(Place, { method: "jsonSchema" });
  assert.ok(ROOMS.includes((await model.invoke("Where is the key?")).room));
});

test("embeddings", async () => {
  const embedder = new OpenAIEmbeddings({
    model: EMBEDDER, apiKey: KEY, maxRetries: 0, configuration: { baseURL: service.DEVICE },
  });
  assert.equal((await embedder.embedQuery("One")).length, 384);
});
